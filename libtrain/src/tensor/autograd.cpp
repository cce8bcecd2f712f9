// The tape: gradient slots, nodes in order, and the backward pass over them.
#include "libtrain/tensor/autograd.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/elementwise.h"
#include "libtrain/error.h"
#include "libtrain/profile/operation.h"
#include "tensor/dispatch.h"
#include "tensor/storage.h"

namespace lt {

namespace {

void require_open(const GradientSlot& slot) {
  if (slot.closed_parameter == nullptr) return;
  throw UsageError("engine",
                   "parameter " + *slot.closed_parameter +
                       ": expected loss() to use it inside run() of its unit, found a use outside",
                   "compute the term in that unit's body; Model::borrow() declares that a later unit uses a parameter");
}

}  // namespace

GradientTarget GradientSlot::next() {
  require_open(*this);
  if (!value.defined()) value = Tensor::empty(shape, dtype, device);
  detail::require_values(value);
  const bool accumulate = written;
  written = true;
  return {value, accumulate};
}

void GradientSlot::add(Tensor gradient) {
  require_open(*this);
  if (!(gradient.shape() == shape)) {
    throw UsageError("autograd", "expected a gradient of shape " + to_string(shape) +
                                     ", the shape of its tensor, got " + to_string(gradient.shape()));
  }
  if (!written && !value.defined() && gradient.dtype() == dtype) {
    value = std::move(gradient);
    written = true;
    return;
  }
  const GradientTarget target = next();
  detail::require_values(gradient);
  tensor::dispatch(device, [&](auto stream) {
    kernels::convert(stream, dtype, target.dst.data(), gradient.dtype(), gradient.data(), gradient.elements(),
                     target.accumulate);
  });
}

void Tape::run_backward() {
  while (!nodes_.empty()) {
    const std::shared_ptr<TapeNode> node = std::move(nodes_.back());
    nodes_.pop_back();
    node->run_backward();
  }
}

void Tape::mark_recomputable(const Tensor& output) { recomputable_.push_back(output); }

void Tape::release_values(const std::vector<Tensor>& except) {
  for (const Tensor& tensor : recomputable_) {
    const auto is_same = [&](const Tensor& other) { return tensor.is_same(other); };
    if (std::ranges::none_of(except, is_same)) tensor.release_values();
  }
  recomputable_.clear();
}

void LossGradient::require_for(DType loss, Device device) const {
  if (!scale.defined() || (scale.dtype() == loss && scale.elements() == 1 && scale.device() == device)) return;
  throw UsageError("autograd", "the scale of a loss's gradient: expected one " + std::string(dtype_name(loss)) +
                                   " on " + to_string(device) + ", got " + to_string(scale.shape()) + " of " +
                                   std::string(dtype_name(scale.dtype())) + " on " + to_string(scale.device()));
}

void backward(Tape& tape, const Tensor& loss, const LossGradient& seed) {
  if (loss.elements() != 1) {
    throw UsageError("autograd", "backward(): expected a loss of one element, got shape " + to_string(loss.shape()));
  }
  const OperationScope operation("backward");
  detail::require_usable(loss);
  if (!loss.requires_grad())
    throw UsageError("autograd", "the loss does not depend on a tensor that requires gradients");
  if (tape.empty() && loss.gradient_slot()->of_result) {
    throw UsageError("autograd", "backward(): expected the tape that recorded the loss, got an empty one",
                     "backward() empties its tape: add several losses up before it, or give each a tape of its own");
  }
  seed.require_for(loss.dtype(), loss.device());
  Tensor gradient = Tensor::empty(loss.shape(), loss.dtype(), loss.device());
  fill(gradient, seed.factor);
  if (seed.scale.defined()) {
    tensor::dispatch(loss.device(), [&](auto stream) {
      kernels::scale(stream, loss.dtype(), gradient.data(), seed.scale.data(), seed.factor, 1, false);
    });
  }
  loss.gradient_slot()->add(std::move(gradient));
  const TapeScope no_recording(nullptr);
  tape.run_backward();
}

void Function::run_backward() {
  // Nothing downstream contributed to this output's gradient, so it is zero.
  if (!output_gradient_->written) return;
  const Tensor dy = std::move(output_gradient_->value);
  output_gradient_->value = Tensor();
  output_gradient_->written = false;
  const OperationScope operation(name());
  if (!takes_deferred()) detail::require_values(dy);
  backward(dy);
}

void MultiResultFunction::set_results(const std::vector<Tensor>& results) {
  for (const Tensor& result : results) result_gradients_.push_back(result.gradient_slot());
}

void MultiResultFunction::run_backward() {
  std::vector<Tensor> dys;
  bool any = false;
  for (const Slot& slot : result_gradients_) {
    const bool written = slot != nullptr && std::exchange(slot->written, false);
    dys.push_back(written ? std::exchange(slot->value, Tensor()) : Tensor());
    any = any || written;
  }
  if (!any) return;
  const OperationScope operation(name());
  for (const Tensor& dy : dys) detail::require_values(dy);
  backward(dys);
}

namespace detail {

bool wants_gradient(const Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

void require_values(const Tensor& tensor) {
  if (tensor::TensorStorage::is_deferred(tensor)) tensor.require_values();
}

void record_results(std::shared_ptr<MultiResultFunction> function, const std::vector<Tensor>& results) {
  for (Tensor result : results) {
    if (result.defined() && is_floating(result.dtype())) result.set_result_of_operation();
  }
  function->set_results(results);
  Context::current().tape->push(std::move(function));
}

void require_usable(const Tensor& tensor) {
  if (!tensor.defined()) return;
  const UnitBody* const made_in = tensor::TensorStorage::body(tensor).get();
  const Context& context = Context::current();
  if (made_in == nullptr || (context.tape == nullptr && context.body == nullptr)) return;
  for (const UnitBody* running = context.body.get(); running != nullptr; running = running->outer.get()) {
    if (running == made_in) return;
  }
  throw UsageError("nn",
                   "a tensor of shape " + to_string(tensor.shape()) + " made in the body of unit " + made_in->unit +
                       ": expected a use inside that body, found one outside of it, by " +
                       std::string(context.operation),
                   "return it from run(): a body may return several tensors");
}

Tensor record_output(std::shared_ptr<Function> function, Tensor output) {
  output.set_result_of_operation();
  function->set_output(output);
  Tape* const tape = Context::current().tape;
  if (!tape->keeps_values() && function->is_cheap()) {
    tensor::TensorStorage::set_recipe(output, [function](const Tensor& out) {
      const OperationScope operation(function->name());
      function->recompute(out);
    });
    tape->mark_recomputable(output);
  }
  tape->push(std::move(function));
  return output;
}

}  // namespace detail
}  // namespace lt
