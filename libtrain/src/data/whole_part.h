// The whole part of a product of a count and a fraction.
#pragma once

#include <cmath>

namespace lt::data {

// The small term keeps a product such as 0.29 * 100 from rounding down to the next lower integer.
inline double whole_part(double product) { return std::floor(product + 1e-6); }

}  // namespace lt::data
