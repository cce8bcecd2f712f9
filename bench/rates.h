// Measures what `ltrain plan --rates` reads.
#pragma once

#include "bench/comm.h"
#include "libtrain/config/config.h"

namespace lt::bench {

// Writes the rows of `bench kernels` that estimates read, in the dtype of the configuration, and with several ranks the
// rows of `bench comm`. All ranks time the kernels at the same time, as they run in a step, because they share the
// memory and the clock of their host; the rows are those of rank 0. options.device is ignored: train.device chooses.
void bench_rates(const Config& config, const World& world, const CommOptions& options);

}  // namespace lt::bench
