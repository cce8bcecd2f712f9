// Times training on growing groups of the run's ranks, under each strategy.
#pragma once

#include "bench/result.h"
#include "libtrain/config/config.h"

namespace lt::bench {

// Returns 1, 2, 4, ... and `ranks` itself.
std::vector<int> rank_counts(int ranks);

// For each count n of rank_counts() and each strategy, the first n ranks train the configured model while the other
// ranks sleep. train.micro_batch is per rank, so the global batch grows with n (weak scaling). At n = 1 all strategies
// are the same, so there is one row, "single". Fields of a row:
//
//   ms                  time of the step's slowest rank
//   tokens_per_s        of all ranks together, from the median; tokens_per_s_per_rank = that / n
//   efficiency          tokens_per_s / (n * tokens_per_s of single), where single is the slowest of these n ranks alone
//   exposed_share       share of the step's time spent waiting for gathers and reductions, mean over ranks
//   memory_peak_bytes   maximum over ranks
//
// Ignores parallel.strategy and says so on standard error. Throws UsageError if parallel.shard_size is set, because it
// would not divide every n, or if train.global_batch is set, because it would change the work per rank.
void bench_scaling(const Config& config, const World& world, const Options& options);

}  // namespace lt::bench
