// Times collectives between the ranks of a run.
#pragma once

#include "bench/result.h"

namespace lt::bench {

// `sizes` are bytes of the whole array. Each rank owns a part of it.
struct CommOptions : Options {
  Device device = kCpu;  // this rank's device
  std::vector<Size> sizes = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
};

// Factor that turns bytes per time into the bus bandwidth of `op` between N ranks:
//
//   algbw = bytes / time,  busbw = algbw * factor
//
// The factor is (N-1)/N for all_gather and reduce_scatter, 2 (N-1)/N for all_reduce, and 1 for broadcast. Each rank
// must send or receive factor * bytes, so the bus bandwidth shows how well the links are used, whatever the operation
// and the number of ranks. The definition is that of NCCL's tests (doc/PERFORMANCE.md there).
double bus_factor(CollectiveOp op, int ranks);

// Writes rows for all_gather, reduce_scatter, all_reduce and broadcast of f32 over the sizes: `ms`, and
// `algbw_gb_per_s` and `busbw_gb_per_s` computed from the median, in units of 10^9 bytes. A call's time is that of the
// slowest rank, measured from a barrier. If the group has gather memory, rows of all_gather with `implementation`
// "window" use arrays in it. Each operation's result is checked for each size before timing; the values are small
// integers, so the check is exact. On CUDA, times come from the device's clock, each the mean of several calls in a
// row. Throws UsageError for one rank and for sizes that are not a multiple of 4.
void bench_comm(const World& world, const CommOptions& options);
// Throws UsageError as bench_comm() does, before anything is measured.
void require_collectives(const World& world, const CommOptions& options);
// The rows alone, which rank 0 prints as a table and returns; other ranks return none. require_collectives() was
// called.
Json measure_collectives(const World& world, const CommOptions& options);

}  // namespace lt::bench
