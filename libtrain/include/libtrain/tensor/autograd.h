// Reverse-mode differentiation on a tape. Operations append a node as they run. backward() visits the nodes in reverse
// order and destroys each one after use, which frees activations as early as possible.
// No operation returns a gradient. It writes each gradient into a *slot*, which determines the destination (for a
// parameter, a range of its unit's flat gradient buffer) and whether to overwrite or accumulate. So no parameter needs
// a temporary gradient.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/device/context.h"
#include "libtrain/memory/memory.h"
#include "libtrain/profile/operation.h"
#include "libtrain/tensor/tensor.h"

namespace LT_API lt {

// Where and how an operation writes its contribution to a gradient.
struct GradientTarget {
  Tensor dst;
  bool accumulate;  // true: add to `dst`; false: overwrite `dst`
};

// Collects the gradient of one tensor.
struct GradientSlot {
  Shape shape;
  DType dtype;  // of `value`; for a leaf it may differ from the tensor's (f32 gradients of bf16 parameters)
  Device device;
  Tensor value;  // allocated by the first contribution, or bound in advance to a range of a flat buffer
  bool written = false;
  // Null if the slot accepts contributions. An engine sets it to the parameter's name while it collects no gradient for
  // the parameter; then next() and add() throw UsageError. The string must stay alive until the pointer is reset.
  const std::string* closed_parameter = nullptr;
  bool of_result = false;  // true: the tensor is an operation's result; false: it is a leaf

  // For an operation that can accumulate. Returns where to write, and marks the slot as written.
  GradientTarget next();
  // For an operation that cannot accumulate. Adds `gradient` (any floating dtype), or takes over its storage if it is
  // the first contribution. So the caller must not use `gradient` afterwards. Throws UsageError for another shape.
  void add(Tensor gradient);
};

// Null if no gradient is wanted. An operation that does not need the values of an input keeps only the input's slot.
using Slot = std::shared_ptr<GradientSlot>;

// One entry of the tape.
class TapeNode {
 public:
  virtual ~TapeNode() = default;
  virtual void run_backward() = 0;
};

class Tape {
 public:
  // keep_values = false turns selective recomputation on: release_values() drops outputs that are cheap to recompute,
  // and the backward pass recomputes them on use.
  explicit Tape(bool keep_values = true) : keep_values_(keep_values) {}

  void push(std::shared_ptr<TapeNode> node) { nodes_.push_back(std::move(node)); }
  // Runs all nodes in reverse order and empties the tape.
  void run_backward();
  // Marks an output whose values release_values() may drop.
  void mark_recomputable(const Tensor& output);
  // Drops the values of all marked outputs except `except`, the results of the unit.
  void release_values(const std::vector<Tensor>& except);
  bool keeps_values() const { return keep_values_; }
  bool empty() const { return nodes_.empty(); }

 private:
  bool keep_values_;
  std::vector<std::shared_ptr<TapeNode>> nodes_;
  std::vector<Tensor> recomputable_;
};

// Operations of this thread append to the given tape until the scope ends. With null they record nothing.
using TapeScope = ContextMemberScope<&Context::tape>;

// The gradient that a backward pass starts with: d(loss) = factor * scale[0].
struct LossGradient {
  LossGradient(double factor_ = 1, Tensor scale_ = {}) : factor(factor_), scale(std::move(scale_)) {}
  // Throws UsageError unless `scale` is undefined or holds one number of dtype `loss` on `device`.
  void require_for(DType loss, Device device) const;
  double factor;
  Tensor scale;  // [1], in the dtype of the loss and on its device; undefined: 1
};
// Runs `tape` backward from the scalar `loss` and empties the tape. Throws UsageError if `loss` does not have exactly
// one element, if it depends on no leaf that requires gradients, if `seed` does not fit it, or if it is an operation's
// result and the tape is empty (as for a second loss of the same tape).
void backward(Tape& tape, const Tensor& loss, const LossGradient& seed = {});

// A tensor that backward() needs. If selective recomputation dropped its values, get() recomputes them first.
class Saved {
 public:
  Saved() = default;
  Saved(const Tensor& tensor) : tensor_(tensor) {}
  const Tensor& get() const {
    tensor_.require_values();
    return tensor_;
  }
  // Returns the tensor without recomputing dropped values.
  const Tensor& handle() const { return tensor_; }
  // Returns the storage if nothing else uses the values, otherwise an undefined tensor. For a backward kernel that
  // reads the values and writes a gradient of the same shape and dtype in place.
  Tensor reusable() const { return get().is_sole_owner() ? tensor_.detach() : Tensor(); }
  const Slot& slot() const { return tensor_.gradient_slot(); }
  bool defined() const { return tensor_.defined(); }

 private:
  Tensor tensor_;
};

// A differentiable operation. The derived class defines forward(), which stores the inputs of backward() in the object:
// see "A new operation" in CONTRIBUTING.md.
class Function : public TapeNode {
 public:
  // A string literal for messages, such as "rms_norm".
  virtual const char* name() const = 0;
  // Writes the gradients of the inputs. `dy` is the output's gradient. The function owns it and may overwrite it or
  // pass it on to the slot of one input.
  virtual void backward(const Tensor& dy) = 0;
  // Recomputes the values of `output` from saved inputs. Called only if is_cheap().
  virtual void recompute(const Tensor& output) { (void)output; }
  // True if selective recomputation may drop the output's values and call recompute().
  virtual bool is_cheap() const { return false; }
  // True if the operation accepts deferred tensors as inputs and as the output's gradient: their values are computed on
  // first use (tensor/storage.h). Other operations receive computed values.
  virtual bool takes_deferred() const { return false; }

  void run_backward() final;
  void set_output(const Tensor& output) { output_gradient_ = output.gradient_slot(); }

 private:
  Slot output_gradient_;
};

// A differentiable operation with several results. forward() returns them as a std::vector, std::array, std::pair or
// std::tuple of tensors.
class MultiResultFunction : public TapeNode {
 public:
  // A string literal for messages, such as "sin_cos".
  virtual const char* name() const = 0;
  // Writes the gradients of the inputs. dys[i] is the gradient of result i, undefined if nothing used the result; at
  // least one is defined. The function owns them, as it does in Function::backward().
  virtual void backward(const std::vector<Tensor>& dys) = 0;

  void run_backward() final;
  void set_results(const std::vector<Tensor>& results);

 private:
  std::vector<Slot> result_gradients_;  // null: the result has no gradient
};

namespace detail {
Tensor record_output(std::shared_ptr<Function> function, Tensor output);
void record_results(std::shared_ptr<MultiResultFunction> function, const std::vector<Tensor>& results);
bool wants_gradient(const Tensor& tensor);
void require_values(const Tensor& tensor);  // computes the values of a deferred tensor
// Throws UsageError if a tape records or a unit's body runs, and the tensor was made in a unit's body that does not run
// now. Such a tensor has no gradient if its unit is recomputed.
void require_usable(const Tensor& tensor);
// Calls visit(tensor) for each tensor in one argument of record(): a Tensor, a std::optional<Tensor>, or a vector or
// array of tensors. Ignores arguments of other types.
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
// The tensors of a result as a list, and back.
template <class Results>
std::vector<Tensor> to_list(Results results) {
  if constexpr (std::is_same_v<Results, Tensor>) {
    return {std::move(results)};
  } else if constexpr (std::is_same_v<Results, std::vector<Tensor>>) {
    return results;
  } else {
    return std::apply([](auto&&... tensors) { return std::vector<Tensor>{std::move(tensors)...}; }, std::move(results));
  }
}
template <class Results>
Results from_list(std::vector<Tensor> list) {
  if constexpr (std::is_same_v<Results, Tensor>) {
    return std::move(list[0]);
  } else if constexpr (std::is_same_v<Results, std::vector<Tensor>>) {
    return list;
  } else {
    return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) { return Results{std::move(list[kIndex])...}; }
    (std::make_index_sequence<std::tuple_size_v<Results>>());
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

// Runs F{}.forward(args...) and returns its result, or its results if F is a MultiResultFunction. Appends F to the
// thread's tape if it has one and a tensor among the arguments requires gradients. Throws UsageError for a tensor that
// another unit's body made (nn::Model::run()). record() finds tensors only in arguments of the types that
// for_each_tensor() visits. For tensors in arguments of other types, forward() must call require_values() itself.
template <class F, class... Args>
auto record(const Args&... args) {
  auto function = std::make_shared<F>();
  const OperationScope operation(function->name());
  (detail::for_each_tensor(args, detail::require_usable), ...);
  if constexpr (std::is_base_of_v<MultiResultFunction, F>) {
    (detail::for_each_tensor(args, detail::require_values), ...);
    auto results = function->forward(args...);
    if (Context::current().tape != nullptr && detail::wants_gradient_any(args...)) {
      detail::record_results(std::move(function), detail::to_list(results));
    }
    return results;
  } else {
    if (!function->takes_deferred()) (detail::for_each_tensor(args, detail::require_values), ...);
    Tensor output = function->forward(args...);
    if (Context::current().tape == nullptr || !detail::wants_gradient_any(args...)) return output;
    return detail::record_output(std::move(function), std::move(output));
  }
}

}  // namespace lt
