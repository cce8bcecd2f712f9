// The tolerance of attention on CUDA against the CPU.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/array.h"
#include "test_main/worst_of.h"

namespace lt::test {

// The allowed max |x - y| / max |y|.
struct Tolerance {
  double out, lse, gradient;
};
// The same formula with sums in another order: f64 2^-53 and f32 2^-24 times sums of some hundred terms. In bf16 and
// f16 the results are rounded once, to 8 bits (2^-9) or 11, occasionally to different sides, and dqkv reads such an
// output.
constexpr Tolerance own_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64: return {1e-12, 1e-12, 1e-12};
    case DType::f32: return {1e-5, 1e-5, 1e-5};
    default: return {1e-2, 1e-5, 2e-2};
  }
}

inline double attention_error(const Array& x, const Array& y) {
  double largest = 0, worst = 0;
  for (Size i = 0; i < y.count(); ++i) {
    worst = lt_test::worst_of(worst, std::fabs(x[i] - y[i]));
    largest = std::max(largest, std::fabs(y[i]));
  }
  return worst == 0 ? 0 : worst / largest;
}

}  // namespace lt::test
