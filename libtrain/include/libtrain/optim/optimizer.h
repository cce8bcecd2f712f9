// Optimizers and learning-rate schedules. An optimizer is a row: the states that it keeps per parameter, the numbers of
// a step that it reads, and its update of a range. The engine, checkpoints and plans work with any row, including one
// that a program defines.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/kernels/step_numbers.h"
#include "libtrain/kernels/stochastic_rounding.h"
#include "libtrain/tensor/shard_map.h"
#include "libtrain/tensor/tensor.h"

namespace LT_API lt {

// A flat range of parameters. All tensors have the same number of elements, lie on one device and are contiguous.
struct UpdateRange {
  Tensor weights;                        // f32; bf16 if the optimizer has no masters
  std::span<const Tensor> states;        // in the order of Optimizer::states
  Tensor gradient;                       // f32; times StepNumbers::gradient_scale it is the mean loss's gradient
  Tensor copy;                           // receives the weights in the compute dtype; undefined if weights have it
  Size decayed = 0;                      // number of leading elements with weight decay
  const StepNumbers* numbers = nullptr;  // in device memory
  // The elements' places, for stochastic rounding; null if weights and states are f32.
  const RoundingPlaces* rounding = nullptr;
  Tensor direction;  // for a MatrixUpdate, f32 or bf16; otherwise undefined
};

// Matrices of `columns` columns, one below the other in a parameter: one matrix, or several such as q, k and v.
struct MatrixStack {
  std::vector<Size> rows;  // of each matrix
  Size columns;
};

// A stream for transforming matrices, and its workspace: at least room_bytes(), aligned for any element.
struct TransformLane {
  Stream stream;
  Tensor room;
};
inline constexpr std::size_t kTransformLanes = 2;
using TransformLanes = std::array<TransformLane, kTransformLanes>;

// The update of an optimizer that needs whole matrices. Ranges may be cut anywhere, so a step has three phases.
struct MatrixUpdate {
  // Reads range.gradient, updates the states, and writes range.direction. The range has no weights.
  std::function<void(const UpdateRange& range)> begin;
  // Turns each of `directions` [rows, columns], described by `stacks`, into the change of the weights, with the same
  // bits whether alone or beside others. All work is enqueued on the lanes, each of which may take a share.
  std::function<void(std::span<const Tensor> directions, std::span<const MatrixStack> stacks,
                     const TransformLanes& lanes)>
      transform;
  std::function<std::array<Size, kTransformLanes>(std::span<const MatrixStack> stacks, DType direction)> room_bytes;
  // Updates range.weights and range.copy by range.direction, the result of transform(). The range has no gradient.
  std::function<void(const UpdateRange& range)> end;
  // FLOPs of transform() for one stack, which balance the ranks.
  std::function<double(const MatrixStack& stack)> flops;
};

struct Optimizer {
  std::string name;
  std::vector<StateKind> states = {};  // tensors kept per parameter, f32 or bf16, initially zero
  std::vector<float> betas = {};       // at most kMaxBetas, in [0, 1); each has an entry in StepNumbers::bias
  // One step of a range: updates weights, states and copy. It must treat every element alike, since a range may be cut
  // anywhere, and must not wait for the device. It is called on the meta device too, where tensors have no values and
  // data() must not be called: the tensors that it makes are planned there, so it makes the same ones.
  std::function<void(const UpdateRange& range)> update = {};
  double lr = 3e-4;   // until Engine::set_learning_rate()
  double clip = 1.0;  // bounds the global L2 norm of the mean gradient, 0 = off
  // Whether f32 master weights exist beside the bf16 or f16 weights in use. Without masters, update() gets the weights
  // in use, which are then bf16.
  bool masters = true;
  // Replaces update(). Such an optimizer trains only the matrices of a model's blocks; other parameters of its group
  // fall to the next group that matches.
  std::optional<MatrixUpdate> matrices = {};
};

// Loshchilov & Hutter 2019. One step: m, v, bias correction, then w -= lr * (m̂ / (sqrt(v̂) + eps) + weight_decay * w);
// tensors of fewer than two dimensions are not decayed. `clip` bounds the global L2 norm of the mean gradient, 0 = off.
// The conversion to Optimizer throws UsageError for an `eps` that is not above 0 and for a negative `weight_decay`.
struct AdamW {
  float lr = 3e-4f;
  float beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f;
  float weight_decay = 0.1f;
  float clip = 1.0f;
  DType state_dtype = DType::f32;  // of m and v: f32, or bf16 with stochastic rounding
  bool masters = true;             // false: no f32 weights; the bf16 weights are rounded stochastically

  operator Optimizer() const;
};

// Jordan 2024, "Muon: An optimizer for hidden layers in neural networks", with the scale of Liu et al. 2025, "Muon is
// scalable for LLM training". One step of a matrix with gradient g:
//   B = momentum B + g,  U = g + momentum B,  O = five Newton-Schulz steps of U / (|U|_F + 1e-7),
//   w -= lr * (0.2 sqrt(max(rows, columns)) O + weight_decay * w).
// The steps run in f32 if the engine trains in f32, else in bf16. An engine takes it beside an optimizer for all other
// parameters: OptimizerGroups({{"*", Muon{}}, {"*", AdamW{}}}, lr, clip).
// The conversion to Optimizer throws UsageError for a `momentum` outside [0, 1) and for a negative `weight_decay`.
struct Muon {
  float lr = 3e-4f;
  float momentum = 0.95f;
  float weight_decay = 0.1f;
  float clip = 1.0f;
  DType state_dtype = DType::f32;  // of B: f32, or bf16 with stochastic rounding
  bool masters = true;             // as in AdamW

  operator Optimizer() const;
};

// Returns the row with one more state, kAverage in f32: the exponential moving average of the weights after each
// update, average += (1 - decay) / (1 - decay^n) (w - average) at the n-th. The engine refuses a `decay` outside [0,
// 1).
Optimizer averaged(Optimizer row, double decay);

enum class Decay { constant, cosine, linear, wsd };

// The learning rate of step n, from 1: lr * n / warmup up to warmup; then with p = (n - warmup) / (steps - warmup)
//   cosine: min_lr + (lr - min_lr) (1 + cos(pi p)) / 2 (Loshchilov & Hutter 2017),
//   linear: lr + (min_lr - lr) p,
//   wsd:    lr up to p = 0.9, then linearly to min_lr: over the last tenth of the steps after warmup (Hu et al. 2024),
//   constant: lr.
// Throws UsageError for a step below 1.
struct Schedule {
  Decay decay = Decay::constant;
  double lr = 3e-4, min_lr = 3e-5;
  Size warmup = 0, steps = 0;

  double at(Size step) const;
};

}  // namespace lt
