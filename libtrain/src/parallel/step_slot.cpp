// Copies batches and rates to the device, and the report back.
#include "parallel/step_slot.h"

#include <cstring>

#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "tensor/id_checks.h"

namespace lt::parallel {

void StepSlot::make_ready(const Batch& batch, const kernels::StepRates& rates) {
  std::memcpy(rates_.data(), &rates, sizeof rates);
  take(batch.inputs, inputs_);
  take(batch.targets, targets_);
  take(batch.document_starts, document_starts_);
}

void StepSlot::take(const Tensor& values, Stage& stage) {
  if (!values.defined() || device_.is_meta()) return;
  const bool is_here = is_on(values, device_);
  if (values.device().is_meta() || (!is_here && values.device() != kCpu)) {
    throw UsageError("engine", "expected the batch on the CPU or on " + to_string(device_) + ", got it on " +
                                   to_string(values.device()));
  }
  if (!values.is_contiguous()) {
    throw UsageError("engine", "expected a contiguous batch, got strides " + to_string(values.strides()));
  }
  if (is_here) return;
  if (!stage || stage->bytes() < values.bytes()) {
    graph.reset();  // it reads the stage
    stage.emplace(device_, values.bytes());
  }
  std::memcpy(stage->data(), values.data(), static_cast<std::size_t>(values.bytes()));
}

Batch StepSlot::on_device(const Batch& batch) const {
  return {send(batch.inputs, inputs_), send(batch.targets, targets_), send(batch.document_starts, document_starts_)};
}

Tensor StepSlot::send(const Tensor& values, const Stage& stage) const {
  if (!values.defined() || is_on(values, device_)) return values;
  const MemoryScope owner(MemoryOwner::data);
  const Tensor here = Tensor::empty(values.shape(), values.dtype(), device_);
  if (stage) stage->send(here);
  return here;
}

StepResult StepSlot::finish(const tensor::DeviceValue<StepReport>& outcome, const tensor::IdChecks* ids) {
  outcome_.receive(outcome.storage());
  finish();
  return {&report(), ids, done_};
}

}  // namespace lt::parallel

namespace lt {

const parallel::StepReport& StepResult::report() const {
  done_.synchronize();
  ids_->require_none(report_->bad_id);
  return *report_;
}

float StepResult::loss() const { return report().loss; }
float StepResult::norm() const { return report().norm; }
float StepResult::loss_scale() const { return report().loss_scale; }
double StepResult::counted_share() const {
  const float weight = report().target_weight;
  return weight > 0 ? 1 / static_cast<double>(weight) : 0;
}

}  // namespace lt
