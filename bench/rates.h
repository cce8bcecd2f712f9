// Measures the rates that `ltrain plan --rates` reads.
#pragma once

#include "bench/comm.h"
#include "libtrain/config/config.h"

namespace lt::bench {

// Writes the rows of `bench kernels` that estimates read, in the dtype of the configuration, and with several ranks the
// rows of `bench comm`. All ranks time the kernels at the same time, as they run in a step, because they share the
// memory and the clock of their host. The rows are from rank 0. Ignores options.device: train.device is used.
void bench_rates(const Config& config, const World& world, const CommOptions& options);

}  // namespace lt::bench
