// Compares two results of the same benchmark.
#pragma once

#include <string>
#include <vector>

#include "libtrain/error.h"

namespace lt::bench {

// Times of one row, all in the same unit.
struct RowTimes {
  double min = 0, median = 0;
  std::vector<double> blocks = {};  // the median of each block of calls
};

enum class Verdict { same, faster, slower, unclear };

// Compares times of B with times of A:
//
//   noise  = max(threshold, 2 * spread_A, 2 * spread_B)
//   spread = max(median - min, largest - smallest of the blocks' medians) / median
//
// With ratio = median_B / median_A, B is slower if ratio > 1 + noise, and faster if ratio < 1 / (1 + noise). Otherwise,
// if the noise is above both kMostNoise and the threshold, the verdict is unclear. The distance from minimum to median
// is the delay that a busy machine adds to half of the calls. The distance between blocks covers effects that outlast a
// few calls, such as an array's place in memory. The maximum describes a single call and is not used. Differences
// between two starts of the program show in neither distance; the threshold covers those.
inline constexpr double kMostNoise = 0.25;
struct Difference {
  double ratio, noise;
  Verdict verdict;
};
Difference compare(const RowTimes& a, const RowTimes& b, double threshold);

// Prints one line per row that both files have, and names the rows that only one file has. Differences between the
// machines and builds go to standard error. Returns ExitCode::slower if a row is slower beyond noise, otherwise ok.
// Throws DataError if a file is not a benchmark result, if the files share no row, or if one is from a CPU and the
// other from a GPU.
ExitCode compare_results(const std::string& path_a, const std::string& path_b, double threshold);

}  // namespace lt::bench
