// The few numbers of a step that stay on the device.
#pragma once

#include "kernels/step_numbers.h"
#include "libtrain/parallel/engine.h"
#include "tensor/device_value.h"

namespace lt {

struct StepScalars {
  // For a rank among `ranks`, in a shard group of `shard_ranks`.
  StepScalars(const StepOptions& options, Size ranks, Size shard_ranks, Size units, Size groups);

  // [ranks * accum], this rank's part is written first, then all are gathered. With ignored targets it holds the counts
  // before the losses.
  Tensor losses;
  DeviceValue<StepOutcome> outcome;
  Tensor partials;                  // [shard_ranks * units] sums of squares, f64
  DeviceValue<StepNumbers> update;  // one per optimizer group
  DeviceValue<kernels::StepRates> rates;
};

}  // namespace lt
