// The worst of many differences.
#pragma once

#include <algorithm>
#include <cmath>

namespace lt_test {

// The larger of the worst difference so far and another; infinity if that one is not finite, where std::max() would
// drop a NaN.
inline double worst_of(double worst, double difference) {
  return std::isfinite(difference) ? std::max(worst, difference) : HUGE_VAL;
}

}  // namespace lt_test
