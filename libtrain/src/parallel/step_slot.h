// StepSlot: the inputs that the host prepares for one step, and the step's results. With two slots the host prepares a
// step while the device runs the previous one.
#pragma once

#include <new>
#include <optional>

#include "kernels/step_numbers.h"
#include "libtrain/parallel/engine.h"
#include "parallel/step_graph.h"
#include "parallel/step_scalars.h"
#include "tensor/device_value.h"
#include "tensor/host_stage.h"

namespace lt::parallel {

class StepSlot {
 public:
  explicit StepSlot(Device device)
      : device_(device), rates_(device, sizeof(kernels::StepRates)), outcome_(device, sizeof(StepReport)) {
    new (outcome_.data()) StepReport;
  }

  // Waits until the last run is over, and returns its report. Before the first run, returns the report of a step
  // without errors.
  const StepReport& wait() const { return done_.synchronize(), report(); }
  // Stages the inputs of the next run. The last run must be over.
  void make_ready(const Batch& batch, const kernels::StepRates& rates);
  // Both are called in the step. They send a batch that is on the CPU, and the rates, to the device.
  Batch on_device(const Batch& batch) const;
  void send_rates(const tensor::DeviceValue<kernels::StepRates>& rates) const { rates_.send(rates.storage()); }
  // Called after the step. Copies its results to the host.
  StepResult finish(const tensor::DeviceValue<StepReport>& outcome, const tensor::IdChecks* ids);
  void finish() { done_.record(Stream::compute(device_)); }

  std::optional<StepGraph> graph;

 private:
  using Stage = std::optional<tensor::HostStage>;
  void take(const Tensor& values, Stage& stage);
  Tensor send(const Tensor& values, const Stage& stage) const;
  const StepReport& report() const { return *static_cast<const StepReport*>(outcome_.data()); }

  Device device_;
  Stage inputs_, targets_, document_starts_;
  tensor::HostStage rates_, outcome_;
  Event done_;
};

// True if work on `device` can read the tensor directly. For a meta tensor, compares the device types that it plans
// for.
inline bool is_on(const Tensor& tensor, Device device) {
  if (!tensor.device().is_meta() && !device.is_meta()) return tensor.device() == device;
  return target_of(tensor.device()) == target_of(device);
}

}  // namespace lt::parallel
