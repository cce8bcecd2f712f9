// Compares two results of the same benchmark.
#pragma once

#include <string>

#include "libtrain/error.h"

namespace lt::bench {

struct Spread {
  double min = 0, median = 0, max = 0;
};

enum class Verdict { same, faster, slower };

// B against A, both times. A difference counts where it is beyond
//
//   noise = max(threshold, 2 * max((median_A - min_A) / median_A, (median_B - min_B) / median_B))
//
// that is: ratio = median_B / median_A is above 1 + noise (slower) or below 1 / (1 + noise) (faster). The way from the
// minimum to the median is what a machine that does other things as well adds to half of the calls; the maximum tells
// of one call, and is not used.
struct Difference {
  double ratio, noise;
  Verdict verdict;
};
Difference compare(const Spread& a, const Spread& b, double threshold);

// Prints a row for each that is in both files, names those that are in one alone, and on standard error what differs
// between the machines and builds. Returns ExitCode::slower where a row is slower beyond noise, otherwise ok. Throws
// DataError for files that are no results of a benchmark and for two that have no row in common.
ExitCode compare_results(const std::string& path_a, const std::string& path_b, double threshold);

}  // namespace lt::bench
