// Chooses the source of each sample of a run if several sources are mixed by weight: a pure function of the sample's
// index.
#pragma once

#include <cstdint>
#include <vector>

#include "libtrain/dtype.h"

namespace lt::data {

// The chairman assignment of Tijdeman (1980). Among the first n samples, a source with share s has n * s samples, with
// an error below one sample. The shares are ratios of integers, so the assignment is periodic; one period is a table.
class Mixture {
 public:
  // Weights must be above 0 and have at most six decimals. Throws UsageError for other weights, or if the period would
  // have more than kMostPeriod samples.
  explicit Mixture(const std::vector<double>& weights);

  static constexpr Size kMostPeriod = Size{1} << 22;

  // Samples of each source in a period: the smallest integers in the ratio of the weights. Throws UsageError for
  // invalid weights.
  static std::vector<Size> shares_of(const std::vector<double>& weights);

  struct SourceSample {
    Size source;
    Size count;  // samples of this source before this one
  };
  SourceSample at(Size sample) const;
  // The index of the source's sample number `count`, counted from 0.
  Size sample_of(Size source, Size count) const;

 private:
  struct Entry {
    std::int32_t source, count;  // as in SourceSample
  };
  std::vector<Size> shares_;  // by source: samples in a period
  Size period_ = 0;           // their sum
  std::vector<Entry> table_;  // one period
};

}  // namespace lt::data
