// Rounds the product of a count and a fraction down.
#pragma once

#include <cmath>

namespace lt::data {

// The small term keeps a product such as 0.29 * 100 = 28.99... from being rounded down to 28.
inline double whole_part(double product) { return std::floor(product + 1e-6); }

}  // namespace lt::data
