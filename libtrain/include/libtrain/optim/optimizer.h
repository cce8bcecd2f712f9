// Optimizers, and learning-rate schedules. An optimizer is a row: what it keeps of each parameter, which numbers of a
// step it reads, and how it changes a range. The engine, checkpoints and plans read the row, whoever wrote it.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/kernels/step_numbers.h"
#include "libtrain/kernels/stochastic_rounding.h"
#include "libtrain/tensor/shard_map.h"
#include "libtrain/tensor/tensor.h"

namespace lt {

// A flat range of parameters. All tensors have as many elements, lie on one device and are contiguous.
struct UpdateRange {
  Tensor weights;                        // f32; bf16 where the optimizer has no masters
  std::span<const Tensor> states;        // by Optimizer::states
  Tensor gradient;                       // f32; StepNumbers::gradient_scale makes it that of the mean loss
  Tensor copy;                           // receives the weights in the compute dtype; undefined where that is theirs
  Size decayed = 0;                      // weight decay is for the first so many elements
  const StepNumbers* numbers = nullptr;  // in the device's memory
  // Which elements these are, for stochastic rounding; null where weights and states are f32.
  const RoundingPlaces* rounding = nullptr;
  Tensor direction;  // of a MatrixUpdate, f32 or bf16; undefined for others
};

// Matrices of `columns` columns that lie one below the other in a parameter: one, or as q, k and v do.
struct MatrixStack {
  std::vector<Size> rows;  // of each matrix
  Size columns;
};

// A stream on which matrices are transformed, and the memory of its work: at least what room_bytes() says, aligned for
// any element.
struct TransformLane {
  Stream stream;
  Tensor room;
};
inline constexpr std::size_t kTransformLanes = 2;
using TransformLanes = std::array<TransformLane, kTransformLanes>;

// The update of an optimizer that looks at matrices as a whole. Ranges are cut anywhere, so a step has three parts.
struct MatrixUpdate {
  // Reads range.gradient, changes the states, and writes range.direction. There are no weights.
  std::function<void(const UpdateRange& range)> begin;
  // Each of `directions` [rows, columns], of `stacks`, becomes what the weights change by: the same bits alone and
  // beside others. All work is given to the lanes, each of which may take a share.
  std::function<void(std::span<const Tensor> directions, std::span<const MatrixStack> stacks,
                     const TransformLanes& lanes)>
      transform;
  std::function<std::array<Size, kTransformLanes>(std::span<const MatrixStack> stacks, DType direction)> room_bytes;
  // Changes range.weights and range.copy by range.direction, which transform() has made. There is no gradient.
  std::function<void(const UpdateRange& range)> end;
  // FLOPs of transform() for one stack. Ranks are balanced by them.
  std::function<double(const MatrixStack& stack)> flops;
};

struct Optimizer {
  std::string name;
  std::vector<StateKind> states = {};  // the tensors that it keeps of each parameter, zeros at first: f32 or bf16
  std::vector<float> betas = {};       // at most kMaxBetas, of [0, 1): StepNumbers::bias has a number for each
  // One step of a range: weights, states and copy change. Every element is computed alike, as a range may be cut
  // anywhere, and without waiting for the device. Called on the meta device too, where there are no values.
  std::function<void(const UpdateRange& range)> update = {};
  double lr = 3e-4;   // until Engine::set_learning_rate()
  double clip = 1.0;  // bounds the global L2 norm of the mean gradient, 0 = off
  // Whether there are f32 weights beside those in use. Without them update() gets the latter, which are bf16 then.
  bool masters = true;
  // Replaces update(). Such an optimizer is for the matrices of a model's blocks; its group leaves all others to
  // the next group that matches.
  std::optional<MatrixUpdate> matrices = {};
};

// Loshchilov & Hutter 2019. One step: m, v, bias correction, then w -= lr * (m̂ / (sqrt(v̂) + eps) + weight_decay * w);
// tensors of fewer than two dimensions are not decayed. `clip` bounds the global L2 norm of the mean gradient, 0 = off.
struct AdamW {
  float lr = 3e-4f;
  float beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f;
  float weight_decay = 0.1f;
  float clip = 1.0f;
  DType state_dtype = DType::f32;  // of m and v: f32, or bf16 that is rounded stochastically
  bool masters = true;             // false, in bf16: no f32 weights; those in use are rounded stochastically

  operator Optimizer() const;
};

// Jordan 2024, "Muon: An optimizer for hidden layers in neural networks", with the scale of Liu et al. 2025, "Muon is
// scalable for LLM training". One step of a matrix, g its gradient:
//   B = momentum B + g,  U = g + momentum B,  O = five Newton-Schulz steps of U / (|U|_F + 1e-7),
//   w -= lr * (0.2 sqrt(max(rows, columns)) O + weight_decay * w).
// The steps are in f32 where the engine trains in f32, else in bf16. An engine takes it beside an optimizer of all that
// is no matrix of a block: OptimizerGroups({{"*", Muon{}}, {"*", AdamW{}}}, lr, clip).
struct Muon {
  float lr = 3e-4f;
  float momentum = 0.95f;
  float weight_decay = 0.1f;
  float clip = 1.0f;
  DType state_dtype = DType::f32;  // of B: f32, or bf16 that is rounded stochastically
  bool masters = true;             // as AdamW's

  operator Optimizer() const;
};

// The row with one more state, kAverage in f32: the exponential moving average of the weights after each update so far,
// average += (1 - decay) / (1 - decay^n) (w - average) at the n-th. The engine refuses a `decay` outside [0, 1).
Optimizer averaged(Optimizer row, double decay);

enum class Decay { constant, cosine, linear, wsd };

// The learning rate of step n, from 1: lr * n / warmup up to warmup; then with p = (n - warmup) / (steps - warmup)
//   cosine: min_lr + (lr - min_lr) (1 + cos(pi p)) / 2 (Loshchilov & Hutter 2017),
//   linear: lr + (min_lr - lr) p,
//   wsd:    lr up to p = 0.9, then linearly to min_lr: over the last tenth of the steps after warmup (Hu et al. 2024),
//   constant: lr.
struct Schedule {
  Decay decay = Decay::constant;
  double lr = 3e-4, min_lr = 3e-5;
  Size warmup = 0, steps = 0;

  double at(Size step) const;
};

// Throws UsageError naming the schedules.
Decay find_decay(std::string_view name);

}  // namespace lt
