// Runs a unit: calls the observer around both passes, and recomputes. Each unit records on its own tape, which is one
// node of the enclosing tape.
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
  // Full recomputation only: the forward pass with its inputs, and the context that it ran under.
  std::function<Tensor()> body;
  ForwardContext context;
  Slot output;

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
    const TapeScope recording(&tape);
    const Tensor again = body();
    again.require_values();  // what backward needs of a norm comes with its values
    body = nullptr;
    // A body may return its input, to whose gradient later units have added.
    if (again.requires_grad() && output->written) again.gradient_slot()->add(std::move(output->value));
  }
};

Tensor output_of(const std::function<Tensor()>& body, const std::string& unit) {
  Tensor output = body();
  if (!output.defined())
    throw UsageError("nn", "run(): expected a tensor from the body of unit " + unit + ", got none");
  return output;
}

}  // namespace

Tensor Model::run(const Module& unit, const std::function<Tensor()>& body) {
  const int index = index_of(unit);
  const UnitInfo& info = units_[static_cast<std::size_t>(index)];
  const std::string& name = info.name;
  if (Context::current().model == this) {
    throw UsageError("nn", "run(): expected units to run one after the other, got unit " + name +
                               " in the body of unit " + std::string(Context::current().unit));
  }
  const ContextMemberScope<&Context::model> model(this);
  const ContextMemberScope<&Context::unit> running(name);
  const ContextMemberScope<&Context::in_block> in_block(info.is_block);
  const SpanScope span(Lane::compute, name);
  Tape* outer = Context::current().tape;
  const Recompute mode = observer_ != nullptr && outer != nullptr ? observer_->recompute(index) : Recompute::none;
  if (observer_ != nullptr) observer_->before_forward(index);

  Tensor output;
  if (outer == nullptr || (observer_ != nullptr && !observer_->wants_backward(index))) {
    const TapeScope no_recording(nullptr);
    output = output_of(body, name);
    output.require_values();  // while the unit's parameters are here
    tensor::TensorStorage::forget(output);
  } else {
    auto node = std::make_shared<UnitNode>(observer_, index, info, mode);
    if (mode == Recompute::full) {
      const TapeScope no_recording(nullptr);
      output = output_of(body, name).detach();
      output.set_result_of_operation();
      node->body = body;
      node->context = ForwardContext::current();
      node->output = output.gradient_slot();
    } else {
      const TapeScope recording(&node->tape);
      output = output_of(body, name);
      output.require_values();
      node->tape.release_values(output);
    }
    outer->push(std::move(node));
  }

  if (observer_ != nullptr) observer_->after_forward(index);
  return output;
}

}  // namespace lt::nn
