// Times training on a growing part of the run's ranks, under each strategy.
#pragma once

#include "libtrain/train/config.h"
#include "result.h"

namespace lt::bench {

// 1, 2, 4, ... and `ranks` itself.
std::vector<int> rank_counts(int ranks);

// For each count n of rank_counts() and each strategy the first n ranks train the configured model; the others sleep.
// train.micro_batch is that of a rank, so the global batch grows with n (weak scaling). At n = 1 the strategies are
// the same, and there is one row, "single". Of each row:
//
//   ms                  the step's time, that of its slowest rank
//   tokens_per_s        of all ranks together, by the median; tokens_per_s_per_rank = that / n
//   efficiency          tokens_per_s / (n * tokens_per_s of single)
//   exposed_share       of the step's time, mean over ranks: waiting for gathers and reductions
//   memory_peak_bytes   the maximum over ranks
//
// parallel.strategy is not read. Throws UsageError for a parallel.shard_size, which would not divide every n.
void bench_scaling(const Config& config, const World& world, const Options& options);

}  // namespace lt::bench
