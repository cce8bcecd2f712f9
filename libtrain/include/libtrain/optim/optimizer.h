// Optimizers and learning-rate schedules. An Optimizer is data: the states that it keeps per parameter, its betas, and
// a function that updates a flat range of parameters. The engine, checkpoints and plans accept any, including a
// user-defined one.
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

// A flat range of parameters to update. All tensors have the same number of elements, are contiguous and lie on one
// device.
struct UpdateRange {
  Tensor weights = {};                   // f32; bf16 without master weights (Optimizer::masters)
  std::span<const Tensor> states = {};   // one for each of Optimizer::states, in that order
  Tensor gradient = {};                  // f32; multiply it by StepNumbers::gradient_scale to get the clipped gradient
  Tensor copy = {};                      // receives the weights in the compute dtype; undefined if `weights` has it
  Size decayed = 0;                      // number of leading elements with weight decay
  const StepNumbers* numbers = nullptr;  // in device memory; on meta: host memory, with skip = 1
  // Maps the elements to parameters, for stochastic rounding; null if weights and states are f32.
  const RoundingSegments* rounding = nullptr;
  Tensor direction = {};  // f32 or bf16 for a MatrixUpdate; otherwise undefined
};

// The matrices of one parameter, stacked by rows: one matrix, or several such as q, k and v.
struct MatrixStack {
  std::vector<Size> rows = {};  // of each matrix
  Size columns = 0;             // of every matrix
};

// A stream that transforms matrices, and its workspace. `workspace` has at least MatrixUpdate::workspace_bytes() bytes,
// aligned for any dtype; it is undefined if that is 0.
struct TransformLane {
  Stream stream = Stream();
  Tensor workspace = {};
};
inline constexpr std::size_t kTransformLanes = 2;
using TransformLanes = std::array<TransformLane, kTransformLanes>;

// The update of an optimizer that needs complete matrices. A range may start or end inside a matrix, so an update has
// three phases: begin(), transform(), end().
struct MatrixUpdate {
  // Reads range.gradient, updates range.states and writes range.direction. range.weights is undefined.
  std::function<void(const UpdateRange& range)> begin = {};
  // Transforms each of `directions` [rows, columns] in place; stacks[i] describes directions[i]. The bits of a result
  // must not depend on the other directions. It must enqueue all work on the lanes, and may divide the work among them.
  std::function<void(std::span<const Tensor> directions, std::span<const MatrixStack> stacks,
                     const TransformLanes& lanes)>
      transform = {};
  // Returns the bytes of workspace that transform() needs on each lane, for directions of dtype `direction`.
  std::function<std::array<Size, kTransformLanes>(std::span<const MatrixStack> stacks, DType direction)>
      workspace_bytes = {};
  // Updates range.weights and range.copy by range.direction, the result of transform(). range.gradient is undefined.
  std::function<void(const UpdateRange& range)> end = {};
  // Returns the FLOPs of transform() for one stack. The engine uses them to divide the stacks evenly among ranks.
  std::function<double(const MatrixStack& stack)> flops = {};
};

struct Optimizer {
  std::string name = {};
  std::vector<StateKind> states = {};  // tensors per parameter, f32 or bf16, initially 0
  std::vector<float> betas = {};       // at most kMaxBetas, in [0, 1); StepNumbers::bias has an entry for each
  // Updates weights, states and copy of a range by one step. It must treat all elements alike, because a range may
  // start or end anywhere; it must change nothing if StepNumbers::skip is not 0; and it must not wait for the device.
  // A rehearsal (a dry run of the step on shapes only) calls it on the meta device, where it must not call data().
  // There it must allocate the same tensors as in a real step, because the rehearsal plans their memory.
  std::function<void(const UpdateRange& range)> update = {};
  double lr = 3e-4;   // initial learning rate; Engine::set_learning_rate() replaces it
  double clip = 1.0;  // upper bound of the mean gradient's global L2 norm; 0 disables it
  // True: the engine keeps f32 master weights if it computes in bf16 or f16. False: update() gets the compute weights,
  // which must be bf16.
  bool masters = true;
  // Replaces update(), which must then be empty. Such an optimizer trains only the matrices of a model's blocks. Other
  // parameters that match its group belong to the next matching group.
  std::optional<MatrixUpdate> matrices = {};
};

// AdamW (Loshchilov & Hutter 2019). A step updates the moments m and v, corrects their bias to m̂ and v̂, then does
// w -= lr * (m̂ / (sqrt(v̂) + eps) + weight_decay * w). Tensors with fewer than two dimensions have no weight decay.
// The conversion to Optimizer throws UsageError unless `eps` is above 0 and `weight_decay` is finite and not negative.
struct AdamW {
  float lr = 3e-4f;
  float beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f;
  float weight_decay = 0.1f;
  float clip = 1.0f;               // as in Optimizer
  DType state_dtype = DType::f32;  // of m and v: f32, or bf16 with stochastic rounding
  bool masters = true;             // false: no f32 master weights; updates round the bf16 weights stochastically

  operator Optimizer() const;
};

// Muon (Jordan 2024, "Muon: An optimizer for hidden layers in neural networks"), scaled as in Liu et al. 2025, "Muon is
// scalable for LLM training". One step for a matrix with gradient g:
//   B = momentum B + g,  U = g + momentum B,  O = five Newton-Schulz steps of U / (|U|_F + 1e-7),
//   w -= lr * (0.2 sqrt(max(rows, columns)) O + weight_decay * w).
// The Newton-Schulz steps run in f32 if the engine trains in f32, else in bf16. Muon trains only matrices of blocks, so
// an engine needs a second optimizer for other parameters: OptimizerGroups({{"*", Muon{}}, {"*", AdamW{}}}, lr, clip).
// The conversion to Optimizer throws UsageError unless `momentum` is in [0, 1) and `weight_decay` is finite and not
// negative.
struct Muon {
  float lr = 3e-4f;
  float momentum = 0.95f;
  float weight_decay = 0.1f;
  float clip = 1.0f;               // as in Optimizer
  DType state_dtype = DType::f32;  // of B: f32, or bf16 with stochastic rounding
  bool masters = true;             // as in AdamW

  operator Optimizer() const;
};

// Returns `row` with one more state, kAverage in f32: the exponential moving average of the weights. After update n,
// average += (1 - decay) / (1 - decay^n) (w - average). The decay is appended to the row's betas. Throws UsageError if
// the row is incomplete. The engine throws UsageError for a `decay` outside [0, 1).
Optimizer averaged(Optimizer row, double decay);

enum class Decay { constant, cosine, linear, wsd };

// The learning rate of step n, counted from 1. While n <= warmup it is lr * n / warmup. Then, with
// p = min(1, (n - warmup) / (steps - warmup)), it is
//   cosine: min_lr + (lr - min_lr) (1 + cos(pi p)) / 2 (Loshchilov & Hutter 2017),
//   linear: lr + (min_lr - lr) p,
//   wsd:    lr while p <= 0.9, then linear to min_lr over the last tenth of the steps after warmup (Hu et al. 2024),
//   constant: lr.
struct Schedule {
  Decay decay = Decay::constant;
  double lr = 3e-4, min_lr = 3e-5;
  Size warmup = 0, steps = 0;

  // Throws UsageError for a step below 1.
  double at(Size step) const;
};

}  // namespace lt
