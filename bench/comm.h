// Times collectives between the ranks of a run.
#pragma once

#include "bench/result.h"

namespace lt::bench {

// `sizes` are bytes of the whole array. Each rank owns one part of the array.
struct CommOptions : Options {
  Device device = kCpu;  // this rank's device
  std::vector<Size> sizes = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
};

// Factor that turns bytes per time into the bus bandwidth of `op` between N ranks:
//
//   algbw = bytes / time,  busbw = algbw * factor
//
// The factor is (N-1)/N for all_gather and reduce_scatter, 2 (N-1)/N for all_reduce, and 1 for broadcast. Each rank
// must send or receive factor * bytes, so the bus bandwidth shows how well the links are used, independent of the
// operation and the number of ranks. The definition follows nccl-tests (doc/PERFORMANCE.md there).
double bus_factor(CollectiveOp op, int ranks);

// Writes rows for all_gather, reduce_scatter, all_reduce and broadcast of f32 over the sizes: `ms`, and
// `algbw_gb_per_s` and `busbw_gb_per_s` computed from the median, in units of 10^9 bytes. A call's time is the slowest
// rank's time, measured from a barrier. If the group has windows (memory that peers can write), all operations except
// broadcast get further rows, with `implementation` "window", whose arrays lie in windows. Each operation's result is
// checked for each size before timing; the values are small integers, so the check is exact. On CUDA, times come from
// the device's clock, and each is the mean of several consecutive calls. Throws UsageError for one rank, and for sizes
// that are not a multiple of 4 or are above a third of a rank's memory. Throws InternalError for a wrong result.
void bench_comm(const World& world, const CommOptions& options);
// Throws the UsageErrors of bench_comm(), without measuring.
void require_collectives(const World& world, const CommOptions& options);
// Measures the rows. Rank 0 prints them as a table and returns them. Other ranks return an empty array. The caller must
// call require_collectives() first.
Json measure_collectives(const World& world, const CommOptions& options);

}  // namespace lt::bench
