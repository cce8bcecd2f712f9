// Times every kernel at the sizes of a model.
#pragma once

#include "libtrain/train/config.h"
#include "result.h"

namespace lt::bench {

// Rows with `flops`, `bytes`, `ms`, `gflops`, `gb_per_s`, and how near the kernel comes to what the processor can do:
//
//   limit_ms       = max(flops / peak FLOP/s, bytes / memory rate)
//   roofline_share = limit_ms / median of ms
//
// The peaks are measured first (`peaks`): f32 multiply-adds in registers, for products of bf16 the best of several, and
// passes over arrays by their size. The memory rate is the best of reads and updates of an array that is larger than
// half of `footprint_bytes`, since a smaller one may lie in a faster cache than the kernel's; on CUDA that of a copy
// whose two arrays take `footprint_bytes` together. `limited_by` says which of the two bounds is the higher. Sizes:
// model.*, train.micro_batch, train.seq; both dtypes are measured. Rows whose "name implementation shape dtype" does
// not contain `filter` are left out.
//
// Throws UsageError for more than one rank and for a filter that no row matches, InternalError where a kernel's result
// is not the reference's.
void bench_kernels(const Config& config, const World& world, const Options& options, const std::string& filter);

}  // namespace lt::bench
