// Stochastic rounding: exact over all random bits, with bits that depend only on the element.
#include "libtrain/kernels/stochastic_rounding.h"

#include <cmath>
#include <limits>
#include <set>

#include "test_main/catch.h"

using namespace lt;

TEST_CASE("stochastic rounding: over all 65,536 random bits the mean is the value", "[kernels]") {
  for (const float value : {1.0f, 1.001f, -1.001f, 0.3f, -2.7e-20f, 6.1e-39f, 1e-45f, 3.0e38f, 0.0f}) {
    double sum = 0;
    std::set<float> results;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const float rounded = round_stochastically(value, bits);
      sum += rounded, results.insert(rounded);
    }
    INFO(value);
    CHECK(sum / 65536 == static_cast<double>(value));
    CHECK(results.size() <= 2);
    CHECK((results.size() == 1) == (static_cast<float>(bf16(value)) == value));
  }
}

TEST_CASE("stochastic rounding: infinities and NaN stay", "[kernels]") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::uint32_t bits : {0u, 1u, 0xffffu}) {
    CHECK(static_cast<float>(round_stochastically(infinity, bits)) == infinity);
    CHECK(static_cast<float>(round_stochastically(-infinity, bits)) == -infinity);
    CHECK(std::isnan(static_cast<float>(round_stochastically(std::nanf("1"), bits))));
  }
}

TEST_CASE("stochastic rounding: each element, step, state and parameter has bits of its own", "[kernels]") {
  const auto bits = [](const char* parameter, const char* state, std::int32_t step, Size element) {
    const auto words = rounding_words(rounding_key(1, parameter), element / 8, step, rounding_state(state));
    return rounding_bits(words, static_cast<int>(element % 8));
  };
  std::set<std::uint32_t> seen;
  double sum = 0;
  for (Size element = 0; element < 4096; ++element) {
    seen.insert(bits("a", "m", 1, element)), sum += bits("a", "m", 1, element);
  }
  CHECK(seen.size() > 3900);  // of 4,096 draws out of 65,536, about 124 repeat an earlier one
  CHECK(sum / 4096 == Approx(32767.5).epsilon(0.03));
  const std::uint32_t one = bits("a", "m", 1, 5);
  CHECK(one != bits("b", "m", 1, 5));
  CHECK(one != bits("a", "v", 1, 5));
  CHECK(one != bits("a", "m", 2, 5));
  CHECK(one != bits("a", "m", 1, 5 + (Size{1} << 35)));
  CHECK(rounding_key(1, "a") != rounding_key(2, "a"));
}

TEST_CASE("rounding segments: the last one that begins at or before an element", "[kernels]") {
  const RoundingSegments segments{3, {{0, 40, 1}, {64, 0, 2}, {128, 0, 3}}};
  CHECK(segments.at(0).key == 1);
  CHECK(segments.at(63).key == 1);
  CHECK(segments.at(64).key == 2);
  CHECK(segments.at(1000).key == 3);
  CHECK(segments.are_aligned());
  CHECK_FALSE(RoundingSegments{1, {{0, 41, 1}}}.are_aligned());
  CHECK_FALSE(RoundingSegments{2, {{0, 0, 1}, {60, 0, 2}}}.are_aligned());
}
