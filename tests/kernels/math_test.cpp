// The exponential of the kernels compared with f64, computed with the same instructions as in the kernels.
#include "kernels/cpu/math.h"

#include <limits>
#include <vector>

#include "test_main/catch.h"

using namespace lt;
using namespace lt::kernels;

namespace {

std::vector<float> exp_of(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  run_vectorised(0, static_cast<Size>(x.size()), [from = x.data(), to = y.data()](Size begin, Size end) LT_VECTOR_BODY {
    for (Size i = begin; i < end; ++i) to[i] = fast_exp_negative(from[i]);
  });
  return y;
}

// Whether a product and a sum are rounded only once: not on processors without the instruction, nor in builds with -O1
// or -Og.
bool has_fused_multiply_add() {
  const std::vector<float> factor = {1 + 0x1p-12f}, rounded = {-(1 + 0x1p-11f)};
  float rest = 0;
  run_vectorised(0, 1, [a = factor.data(), b = rounded.data(), to = &rest](Size begin, Size end) LT_VECTOR_BODY {
    for (Size i = begin; i < end; ++i) to[i] = a[i] * a[i] + b[i];
  });
  return rest != 0;
}

}  // namespace

TEST_CASE("fast_exp_negative keeps its bound over the floats from -87 to 88", "[kernels]") {
  constexpr std::uint32_t kStep = 997, kInfinity = 0x7f800000;  // every kStep-th float of each sign
  std::vector<float> x;
  for (const std::uint32_t sign : {0u, 0x80000000u}) {
    for (std::uint32_t bits = 0; bits < kInfinity; bits += kStep) {
      const float value = std::bit_cast<float>(bits | sign);
      if (value >= -87 && value <= 88) x.push_back(value);
    }
  }
  x.push_back(-87), x.push_back(88);
  REQUIRE(x.size() > 2'000'000);
  const std::vector<float> y = exp_of(x);
  const double slope = has_fused_multiply_add() ? 2e-8 : 8e-8;
  double worst = 0;  // error in units of the bound
  float at = 0;
  Size outside = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double argument = x[i], reference = std::exp(argument);
    const double error = std::abs(y[i] / reference - 1) / (1.5e-7 + slope * std::abs(argument));
    if (!(error < 1)) ++outside;
    if (error > worst) worst = error, at = x[i];
  }
  INFO("slope " << slope << ", largest at " << at << ": " << worst << " of the bound");
  CHECK(outside == 0);
}

TEST_CASE("fast_exp_negative: zero below -87, NaN from NaN", "[kernels]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> y = exp_of({0, -0.0f, std::nextafter(-87.0f, -kInfinity), -104, -1e30f, -kInfinity,
                                       std::numeric_limits<float>::quiet_NaN()});
  CHECK(y[0] == 1);
  CHECK(y[1] == 1);
  for (std::size_t i = 2; i < 6; ++i) CHECK(y[i] == 0);
  CHECK(std::isnan(y[6]));
}
