// Runs a unit: calls the observer around both passes, and recomputes. Each unit records on its own tape, which is one
// node of the enclosing tape.
#include <cstring>
#include <string>

#include "libtrain/error.h"
#include "libtrain/nn/module.h"
#include "libtrain/profile/timeline.h"
#include "libtrain/tensor/autograd.h"
#include "profile/activity_clock.h"
#include "tensor/storage.h"

namespace lt::nn {
namespace {

struct UnitNode final : TapeNode {
  UnitNode(UnitObserver* observer_, int unit_, const UnitInfo& info, Recompute mode_)
      : observer(observer_),
        unit(unit_),
        name(info.name),
        is_block(info.is_block),
        mode(mode_),
        tape(mode_ != Recompute::selective) {}

  UnitObserver* observer;
  int unit;
  const std::string& name;  // belongs to the model's unit
  bool is_block;
  Recompute mode;
  Tape tape;
  // Full recomputation only: the forward pass with its inputs, the contexts that it ran under, and the gradients of its
  // results (null for integers).
  std::function<std::vector<Tensor>()> body;
  ForwardContext context;
  std::shared_ptr<const UnitBody> running;
  std::vector<Slot> results;

  void run_backward() override {
    const SpanScope span(Lane::compute, name);
    const ContextMemberScope<&Context::in_block> in_block(is_block);
    if (observer != nullptr) observer->before_backward(unit);
    if (mode == Recompute::full) run_forward_again();
    tape.run_backward();
    if (observer != nullptr) observer->after_backward(unit);
  }

  void run_forward_again() {
    const profile::ActivityScope activity(Activity::recompute);
    const ForwardScope first_context(context);
    const ContextMemberScope<&Context::body> in_body(running);
    const TapeScope recording(&tape);
    std::vector<Tensor> again = body();
    body = nullptr;
    if (again.size() != results.size()) {
      throw UsageError("nn", "run(): expected " + std::to_string(results.size()) + " tensors from the body of unit " +
                                 name + ", as at its first run, got " + std::to_string(again.size()));
    }
    for (std::size_t i = 0; i < again.size(); ++i) {
      again[i].require_values();  // what backward needs of a norm comes with its values
      // A body may return its input, to whose gradient later units have added.
      if (again[i].requires_grad() && results[i]->written) {
        again[i].gradient_slot()->add(std::move(results[i]->value));
      }
    }
  }
};

// A result of a body may be used outside of it.
void leave_body(const Tensor& result, const std::shared_ptr<const UnitBody>& body) {
  if (tensor::TensorStorage::body(result) == body) tensor::TensorStorage::set_body(result, body->outer);
}

std::vector<Tensor> results_of(const std::function<std::vector<Tensor>()>& body,
                               const std::shared_ptr<const UnitBody>& running) {
  const ContextMemberScope<&Context::body> in_body(running);
  std::vector<Tensor> results = body();
  for (const Tensor& result : results) {
    if (!result.defined()) {
      throw UsageError("nn", "run(): expected a tensor from the body of unit " + running->unit + ", got none");
    }
    lt::detail::require_usable(result);
  }
  return results;
}

}  // namespace

void Model::require_captures_this(const Module& unit, const void* capture) const {
  const void* captured = nullptr;
  std::memcpy(&captured, capture, sizeof captured);
  if (captured == this || captured == dynamic_cast<const void*>(this)) return;
  throw UsageError("nn",
                   "run(): the body of unit " + units_[static_cast<std::size_t>(index_of(unit))].name +
                       ": expected a lambda that captures at most `this`, found another capture",
                   "pass what it reads as an input: run(unit, [](const Tensor& x) {...}, x)");
}

std::vector<Tensor> Model::run_unit(const Module& unit, const std::function<std::vector<Tensor>()>& body) {
  const int index = index_of(unit);
  const UnitInfo& info = units_[static_cast<std::size_t>(index)];
  const std::string& name = info.name;
  const std::shared_ptr<const UnitBody> outer_body = Context::current().body;
  if (outer_body != nullptr && outer_body->model == this) {
    throw UsageError("nn", "run(): expected units to run one after the other, got unit " + name +
                               " in the body of unit " + outer_body->unit);
  }
  const ContextMemberScope<&Context::in_block> in_block(info.is_block);
  const SpanScope span(Lane::compute, name);
  const auto running = std::make_shared<const UnitBody>(UnitBody{this, name, outer_body});
  Tape* outer = Context::current().tape;
  const Recompute mode = observer_ != nullptr && outer != nullptr ? observer_->recompute(index) : Recompute::none;
  if (observer_ != nullptr) observer_->before_forward(index);

  std::vector<Tensor> results;
  if (outer == nullptr || (observer_ != nullptr && !observer_->wants_backward(index))) {
    const TapeScope no_recording(nullptr);
    results = results_of(body, running);
    for (const Tensor& result : results) {
      leave_body(result, running);
      result.require_values();  // while the unit's parameters are here
      tensor::TensorStorage::forget(result);
    }
  } else {
    auto node = std::make_shared<UnitNode>(observer_, index, info, mode);
    if (mode == Recompute::full) {
      const TapeScope no_recording(nullptr);
      results = results_of(body, running);
      for (Tensor& result : results) {
        result = result.detach();  // the body's own tensor has no gradient
        leave_body(result, running);
        if (is_floating(result.dtype())) result.set_result_of_operation();
        node->results.push_back(result.gradient_slot());
      }
      node->body = body;
      node->context = ForwardContext::current();
      node->running = running;
    } else {
      const TapeScope recording(&node->tape);
      results = results_of(body, running);
      for (const Tensor& result : results) leave_body(result, running), result.require_values();
      node->tape.release_values(results);
    }
    outer->push(std::move(node));
  }

  if (observer_ != nullptr) observer_->after_forward(index);
  return results;
}

}  // namespace lt::nn
