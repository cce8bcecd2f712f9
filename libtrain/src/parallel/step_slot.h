// StepSlot: what the host makes ready for one step, and what it gets from it. With two of them the host
// prepares a step while the device is at the one before.
#pragma once

#include <optional>

#include "kernels/step_numbers.h"
#include "libtrain/parallel/engine.h"
#include "parallel/step_graph.h"
#include "tensor/device_value.h"
#include "tensor/host_stage.h"

namespace lt {

class StepSlot {
 public:
  explicit StepSlot(Device device)
      : device_(device), rates_(device, sizeof(kernels::StepRates)), outcome_(device, sizeof(StepOutcome)) {}

  // Waits until the last run is over, and takes what the next one needs.
  void make_ready(const Batch& batch, const kernels::StepRates& rates);
  // In the step: a batch that came on the CPU on its way to the device, and the rates.
  Batch on_device(const Batch& batch) const;
  void send_rates(const DeviceValue<kernels::StepRates>& rates) const { rates_.send(rates.storage()); }
  // After it: what came out of the step comes to the host.
  StepResult finish(const DeviceValue<StepOutcome>& outcome);
  void finish() { done_.record(Stream::compute(device_)); }

  std::optional<StepGraph> graph;

 private:
  using Stage = std::optional<HostStage>;
  void take(const Tensor& values, Stage& stage) const;
  Tensor send(const Tensor& values, const Stage& stage) const;

  Device device_;
  Stage inputs_, targets_;
  HostStage rates_, outcome_;
  Event done_;
};

// Whether work on `device` can read the tensor as it is.
inline bool is_on(const Tensor& tensor, Device device) { return target_of(tensor.device()) == target_of(device); }

}  // namespace lt
