// Reverse-mode differentiation on a tape. Operations append a node as they run; backward() visits the nodes in reverse
// and destroys each after its use, so that activations are freed as early as possible.
// Gradients are never returned: an operation writes each one into its *slot*, which determines the place (for a
// parameter, a range of its unit's flat gradient buffer) and whether to overwrite or accumulate. So no parameter needs
// a temporary.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/device/context.h"
#include "libtrain/memory/memory.h"
#include "libtrain/profile/operation.h"
#include "libtrain/tensor/tensor.h"

namespace LT_API lt {

// How the next contribution to a gradient writes `dst`: it adds or overwrites.
struct GradientTarget {
  Tensor dst;
  bool accumulate;
};

// The place that collects the gradient of one tensor.
struct GradientSlot {
  Shape shape;
  DType dtype;  // of `value`; a leaf's may differ from the tensor's (f32 gradients of bf16 parameters)
  Device device;
  Tensor value;  // allocated by the first contribution, or bound beforehand to a range of a flat buffer
  bool written = false;
  // Null while the slot takes contributions. Otherwise the name of an engine's parameter, and next() and add() throw
  // UsageError. Who sets it keeps the name alive and resets it.
  const std::string* closed_parameter = nullptr;
  bool of_result = false;  // of an operation; otherwise of a leaf

  // For an operation that can accumulate: returns where to write, and counts it as written.
  GradientTarget next();
  // For an operation that cannot: adds `gradient` (same shape, any float dtype), or takes it over if it is the first
  // contribution. So the caller must not use it afterwards.
  void add(Tensor gradient);
};

// Null if no gradient is wanted. An operation that needs only an input's gradient, not its values, keeps just this.
using Slot = std::shared_ptr<GradientSlot>;

// One entry of the tape.
class TapeNode {
 public:
  virtual ~TapeNode() = default;
  virtual void run_backward() = 0;
};

class Tape {
 public:
  // keep_values = false: release_values() drops the outputs that are cheap to recompute, and the backward pass
  // recomputes them on use (selective recomputation).
  explicit Tape(bool keep_values = true) : keep_values_(keep_values) {}

  void push(std::shared_ptr<TapeNode> node) { nodes_.push_back(std::move(node)); }
  // Runs all nodes in reverse. The tape is empty afterwards.
  void run_backward();
  // Marks an output that selective recomputation may drop.
  void mark_recomputable(const Tensor& output);
  // Drops the values of all marked outputs except `except`, the output that leaves the unit.
  void release_values(const Tensor& except);
  bool keeps_values() const { return keep_values_; }
  bool empty() const { return nodes_.empty(); }

 private:
  bool keep_values_;
  std::vector<std::shared_ptr<TapeNode>> nodes_;
  std::vector<Tensor> recomputable_;
};

// Operations of this thread append to the tape during the scope; null records nothing.
using TapeScope = ContextMemberScope<&Context::tape>;

// The seed of a backward pass: d(loss) = factor * scale[0].
struct LossGradient {
  LossGradient(double factor = 1, Tensor scale = {}) : factor(factor), scale(std::move(scale)) {}
  // Throws UsageError unless `scale` is undefined, or one number of a loss's dtype on its device.
  void require_for(DType loss, Device device) const;
  double factor;
  Tensor scale;  // [1], in the dtype of the loss and on its device; undefined: 1
};
// Runs `tape` backward from the scalar `loss`, and empties it. Throws UsageError for a loss that it cannot reach: one
// of another shape, one that depends on no leaf, or an operation's result where nothing is recorded, such as the second
// of two losses of one tape.
void backward(Tape& tape, const Tensor& loss, const LossGradient& seed = {});

// A tensor that backward() needs. get() recomputes the values first if selective recomputation dropped them.
class Saved {
 public:
  Saved() = default;
  Saved(const Tensor& tensor) : tensor_(tensor) {}
  const Tensor& get() const {
    tensor_.require_values();
    return tensor_;
  }
  // For what can do without values that were dropped.
  const Tensor& handle() const { return tensor_; }
  // The storage, for a gradient of the same shape and dtype, if nobody else uses the values; otherwise undefined. For a
  // backward kernel that can read the values and write the gradient in place.
  Tensor reusable() const { return get().is_sole_owner() ? tensor_.detach() : Tensor(); }
  const Slot& slot() const { return tensor_.gradient_slot(); }
  bool defined() const { return tensor_.defined(); }

 private:
  Tensor tensor_;
};

// A differentiable operation. forward() stores what backward() needs in the object. See CONTRIBUTING.md.
class Function : public TapeNode {
 public:
  // For messages: "rms_norm".
  virtual const char* name() const = 0;
  // Writes the gradients of the inputs. `dy`, the output's gradient, belongs to this function, which may overwrite it
  // or pass it on to one input's slot.
  virtual void backward(const Tensor& dy) = 0;
  // Recomputes the values of `output` from saved inputs. Only for operations with is_cheap().
  virtual void recompute(const Tensor& output) { (void)output; }
  virtual bool is_cheap() const { return false; }
  // Whether it takes inputs and output gradients that have no values yet (tensor/storage.h). Others get them with
  // values.
  virtual bool takes_deferred() const { return false; }

  void run_backward() final;
  void set_output(const Tensor& output) { output_gradient_ = output.gradient_slot(); }

 private:
  Slot output_gradient_;
};

namespace detail {
Tensor record_output(std::shared_ptr<Function> function, Tensor output);
bool wants_gradient(const Tensor& tensor);
void require_values(const Tensor& tensor);  // if it is deferred
// Calls visit(tensor) for each tensor of an argument of record(): a Tensor, or several in a vector or array, or one
// that may be missing.
template <class A>
struct IsArrayOfTensors : std::false_type {};
template <std::size_t kCount>
struct IsArrayOfTensors<std::array<Tensor, kCount>> : std::true_type {};
template <class A, class Visit>
void for_each_tensor(const A& argument, Visit&& visit) {
  if constexpr (std::is_same_v<A, Tensor>) {
    visit(argument);
  } else if constexpr (std::is_same_v<A, std::optional<Tensor>>) {
    if (argument) visit(*argument);
  } else if constexpr (std::is_same_v<A, std::vector<Tensor>> || IsArrayOfTensors<A>::value) {
    for (const Tensor& tensor : argument) visit(tensor);
  }
}
template <class... Args>
bool wants_gradient_any(const Args&... args) {
  bool wanted = false;
  const auto look_at = [&](const Tensor& tensor) { wanted = wanted || wants_gradient(tensor); };
  (for_each_tensor(args, look_at), ...);
  return wanted;
}
}  // namespace detail

// Runs F{}.forward(args...). Records the node if a Tensor among the arguments wants a gradient and a tape is current.
// Tensors inside other types than those of for_each_tensor() are not looked at; forward() calls their require_values().
template <class F, class... Args>
Tensor record(const Args&... args) {
  auto function = std::make_shared<F>();
  const OperationScope operation(function->name());
  if (!function->takes_deferred()) (detail::for_each_tensor(args, detail::require_values), ...);
  Tensor output = function->forward(args...);
  if (Context::current().tape == nullptr || !detail::wants_gradient_any(args...)) return output;
  return detail::record_output(std::move(function), std::move(output));
}

}  // namespace lt
