// Times every kernel at the sizes of a model.
#pragma once

#include <string>
#include <vector>

#include "bench/result.h"
#include "libtrain/config/resolved.h"

namespace lt::bench {

// Writes rows with `flops`, `bytes`, `ms`, `gflops`, `gb_per_s`, and how close the kernel comes to the device's limit:
//
//   limit_ms       = max(flops / peak FLOP/s, bytes / memory rate)
//   roofline_share = limit_ms / median of ms
//
// The peaks (`peaks`) are measured first: f32 multiply-adds in registers, the best of several bf16 matmuls, and passes
// over arrays by their size. On the CPU, the memory rate is the best rate of reads and updates over arrays larger than
// half of `footprint_bytes`, because a smaller array may lie in a faster cache than the kernel's arrays. On CUDA it is
// the rate of a copy whose two arrays together take `footprint_bytes`. `limited_by` names the larger of the two times
// in limit_ms. Sizes come from model.*, train.micro_batch and train.seq; both dtypes are measured. Omits rows whose
// "name implementation shape dtype" does not contain `filter`. The result names its `device`: cpu or cuda.
//
// Throws UsageError for more than one rank and for a filter that matches no row, InternalError if a kernel's result
// differs from the reference.
void bench_kernels(const Config& config, const World& world, const Options& options, const std::string& filter);

struct KernelResult {
  Json peaks, left_out = Json::array(), rows = Json::array();
  std::vector<std::string> names;  // of the rows, with the implementation, for display
};
// Resolves the configuration for one rank. Ignores train.global_batch, which is not a size of a kernel.
Resolved resolve_alone(Config given);
// Measures on this rank the kernels whose rates the planner's estimates read, in the run's dtype.
KernelResult measure_rates(const Resolved& resolved, Device device, const Options& options);
void print_kernels(const KernelResult& result);

}  // namespace lt::bench
