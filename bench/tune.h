// Searches for faster algorithms of matrix products.
#pragma once

#include "bench/result.h"
#include "libtrain/config/config.h"

namespace lt::bench {

// Searches the algorithms of products in a step of the configuration on a CUDA device (kernels/product_search.h), which
// takes some minutes. Then times steps with the algorithms that runs take now and with those that were found, in
// turn, three times. If the steps of every round with the latter are shorter than those of every round with the former,
// later runs on such a device take what was found. Throws UsageError and DataError.
void bench_tune(const Config& config, const World& world, const Options& options);

}  // namespace lt::bench
