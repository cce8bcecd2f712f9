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
// (kernels/matmul_search.h). The search takes one to two minutes. Then times steps three times in turn with the present
// table and with the found one. Writes the found table to `table`, unless its shortest median step is longer than that
// of the present one. The present table is train.algorithms, else `table` if it exists, else the one that the library
// carries. Throws UsageError for more than one rank or a CPU, DataError if a file cannot be read or written.
void bench_tune(const Config& config, const World& world, const Options& options, const std::string& table,
                const ShowProgress& progress);

}  // namespace lt::bench
