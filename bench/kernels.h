// Times every kernel at the sizes of a model.
#pragma once

#include "libtrain/config.h"
#include "result.h"

namespace lt::bench {

// Rows with `flops`, `bytes`, `ms`, `gflops`, `gb_per_s`, and how near the kernel comes to what the processor can do:
//
//   limit_ms       = max(flops / peak FLOP/s, bytes / read rate)
//   roofline_share = limit_ms / median of ms
//
// The peaks are measured first (`peaks`): f32 multiply-adds in registers, for bf16 products the best large product, and
// the rate of reads of the smallest array that is at least as large as the kernel's bytes. `limited_by` says which of
// the two bounds is the higher. Sizes: model.*, train.micro_batch, train.seq; both dtypes are measured. Rows whose
// "name implementation shape dtype" does not contain `filter` are left out.
//
// Throws UsageError for more than one rank and for a filter that no row matches, InternalError where a kernel's result
// is not the reference's.
void bench_kernels(const Config& config, const World& world, const Options& options, const std::string& filter);

}  // namespace lt::bench
