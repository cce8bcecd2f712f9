// The scalars of a step that stay on the device, such as losses and norms.
#pragma once

#include <memory>

#include "kernels/step_numbers.h"
#include "libtrain/parallel/engine.h"
#include "tensor/device_value.h"

namespace lt::parallel {

// The results that the host reads after a step.
struct StepReport {
  float loss = 0, norm = 0, loss_scale = 1;
  float target_weight = 1;   // targets / non-ignored targets of the global batch; 0 if all are ignored
  std::uint64_t bad_id = 0;  // word of the engine's IdChecks; once not 0 it stays, and no step updates anything
  std::int32_t skipped = 0;  // steps so far without an update
};

struct StepScalars {
  StepScalars(Device device, Size optimizer_groups);
  // Allocates `losses` and `partials`, each in windows unless they are null.
  void make_gathered(Size loss_count, const std::shared_ptr<memory::BlockSource>& loss_windows, Size partial_count,
                     const std::shared_ptr<memory::BlockSource>& partial_windows);

  // [ranks * accum]. Each rank writes its part, then all parts are gathered. With ignored targets it holds the counts
  // of targets before it holds the losses.
  Tensor losses;
  tensor::DeviceValue<StepReport> outcome;
  Tensor partials;                          // [shard_ranks * units] sums of squares, f64
  Tensor squares_of_units;                  // [units], f64: their sums over ranks in tree order, in an elastic run
  tensor::DeviceValue<StepNumbers> update;  // one per optimizer group
  tensor::DeviceValue<kernels::StepRates> rates;
};

}  // namespace lt::parallel
