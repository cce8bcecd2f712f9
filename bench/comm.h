// Times collectives between the ranks of the run.
#pragma once

#include "result.h"

namespace lt::bench {

// Bytes of the whole array, of which each rank owns a part.
struct CommOptions : Options {
  Device device = kCpu;  // of this rank
  std::vector<Size> sizes = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
};

// Factor by which the bytes over the time become the bus bandwidth of `op` between N ranks:
//
//   algbw = bytes / time,  busbw = algbw * factor
//
// with (N-1)/N for all_gather and reduce_scatter, 2 (N-1)/N for all_reduce, 1 for broadcast. So a bus bandwidth tells
// how fast the links are used whatever the operation and the number of ranks: each rank must send, or receive, factor *
// bytes. The definition is that of NCCL's tests (doc/PERFORMANCE.md there).
double bus_factor(CollectiveOp op, int ranks);

// Rows for all_gather, reduce_scatter, all_reduce and broadcast of f32 over the sizes: `ms`, `algbw_gb_per_s`,
// `busbw_gb_per_s` (of the median), in units of 10^9 bytes. A call's time is that of the slowest rank, from a barrier
// on. Where the group has memory for gathers, rows of all_gather with `implementation` "window" are of arrays in it.
// The result of each operation and size is checked before it is timed: the numbers are small integers, so it is
// exact. On CUDA times are the device's, each the mean of several calls in a row. Throws UsageError for one rank, and
// for sizes that are no multiple of 4.
void bench_comm(const World& world, const CommOptions& options);

}  // namespace lt::bench
