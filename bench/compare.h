// Compares two results of the same benchmark.
#pragma once

#include <string>
#include <vector>

#include "libtrain/error.h"

namespace lt::bench {

// Times of one row, in one unit.
struct RowTimes {
  double min = 0, median = 0;
  std::vector<double> blocks = {};  // the median of each block of calls
};

enum class Verdict { same, faster, slower, unclear };

// B against A, both times. A difference counts where it is beyond
//
//   noise  = max(threshold, 2 * spread_A, 2 * spread_B)
//   spread = max(median - min, largest - smallest of the blocks' medians) / median
//
// that is: ratio = median_B / median_A is above 1 + noise (slower) or below 1 / (1 + noise) (faster). Where it does not
// and the noise is above kMostNoise (and above the threshold), the measurement cannot tell (unclear). From minimum to
// median is what a busy machine adds to half of the calls; from block to block is what lasts longer than a few calls,
// as the place of an array in memory. The maximum tells of one call, and is not used. What changes from one start of
// the program to the next is in neither: that is what the threshold is for.
inline constexpr double kMostNoise = 0.25;
struct Difference {
  double ratio, noise;
  Verdict verdict;
};
Difference compare(const RowTimes& a, const RowTimes& b, double threshold);

// Prints a row for each that is in both files, names those that are in one alone, and on standard error what differs
// between the machines and builds. Returns ExitCode::slower where a row is slower beyond noise, otherwise ok. Throws
// DataError for files that are no results of a benchmark and for two that have no row in common.
ExitCode compare_results(const std::string& path_a, const std::string& path_b, double threshold);

}  // namespace lt::bench
