// The few numbers of a step that stay on the device.
#pragma once

#include "libtrain/engine.h"

namespace lt {

struct StepScalars {
  // Of a rank among `ranks`, in a shard group of `shard_ranks`.
  StepScalars(const StepOptions& options, Size ranks, Size shard_ranks, Size units, Size groups);

  Tensor losses;      // [ranks * accum], this rank's part first written, then gathered
  Tensor numbers;     // [3]: loss, norm, loss scale
  Tensor loss, norm;  // [1] of them
  Tensor partials;    // [shard_ranks * units] sums of squares, f64
  Tensor update;      // StepNumbers of each group of optimizers
  Tensor rates;       // kernels::StepRates
  Tensor evaluation;  // [1]: the loss of the last one
};

}  // namespace lt
