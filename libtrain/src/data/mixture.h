// Which source a sample of a run comes from, if several are mixed by weight: a pure function of the sample's index.
#pragma once

#include <cstdint>
#include <vector>

#include "libtrain/dtype.h"

namespace lt::data {

// The chairman assignment of Tijdeman (1980). Each source has n times its share among the first n samples, less or more
// by less than one sample. The shares are ratios of integers, so the assignment is periodic, and one period is a table.
class Mixture {
 public:
  // Weights are above 0 and have at most six decimals. Throws UsageError for others, and where the period would have
  // more than kMostPeriod samples.
  explicit Mixture(const std::vector<double>& weights);

  static constexpr Size kMostPeriod = Size{1} << 22;

  // Samples of each source in a period: the smallest integers in the ratios of the weights. Throws UsageError.
  static std::vector<Size> shares_of(const std::vector<double>& weights);

  struct Pick {
    Size source;
    Size count;  // samples of this source before this one
  };
  Pick pick(Size sample) const;
  // The sample that is number `count`, from 0, of a source.
  Size sample_of(Size source, Size count) const;

 private:
  struct Entry {
    std::int32_t source, count;  // as in Pick
  };
  std::vector<Size> shares_;  // by source: samples in a period
  Size period_ = 0;           // their sum
  std::vector<Entry> table_;  // one period
};

}  // namespace lt::data
