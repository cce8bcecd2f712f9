// Searches for faster matmul algorithms.
#pragma once

#include <functional>

#include "bench/result.h"
#include "libtrain/config/config.h"
#include "libtrain/progress.h"

namespace lt::bench {

// Receives the progress of a measurement.
struct ShowProgress {
  OnProgress matmuls;          // searched; begins with (1, total)
  OnProgress steps;            // timed
  std::function<void()> hide;  // before other output
};

// Searches for faster algorithms of the matmuls in a step of the configuration on a CUDA device
// (kernels/matmul_search.h). The search takes some minutes. Then times steps three times in turn with the present
// algorithms of runs and with the found ones. If each round with the found algorithms has a shorter median step than
// each round with the present ones, later runs on this model of device use the found algorithms. Throws UsageError for
// more than one rank, a CPU or train.deterministic, DataError if a file cannot be written.
void bench_tune(const Config& config, const World& world, const Options& options, const ShowProgress& progress);

}  // namespace lt::bench
