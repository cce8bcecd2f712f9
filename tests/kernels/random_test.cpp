// Philox against its published vectors, and the normal stream: independent of how it is cut, with the right moments.
#include "libtrain/kernels/random.h"

#include <cmath>
#include <set>
#include <vector>

#include "test_main/catch.h"

using namespace lt;

namespace {

using Words = std::array<std::uint32_t, 4>;

std::vector<float> normal(std::uint64_t key, std::uint64_t begin, Size count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  fill_normal(values.data(), key, begin, count, 0.0f, 1.0f);
  return values;
}

}  // namespace

// Known answers of philox4x32-10 as the Random123 distribution (Salmon et al. 2011) publishes them.
TEST_CASE("philox: known answers", "[kernels]") {
  const std::uint64_t ones = ~std::uint64_t{0};
  CHECK(philox(0, 0, 0) == Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  CHECK(philox(ones, ones, ones) == Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  // Counter and key: the digits of pi.
  CHECK(philox(0x299f31d0a4093822u, 0x85a308d3243f6a88u, 0x0370734413198a2eu) ==
        Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("philox_word: word i is word i mod 4 of counter i / 4", "[kernels]") {
  for (const std::uint64_t index : {0ull, 1ull, 3ull, 4ull, 1000003ull, (1ull << 40) + 2}) {
    CHECK(philox_word(17, index) == philox(17, index / 4)[index % 4]);
  }
}

TEST_CASE("uniform_from: 24 bits in [0, 1)", "[kernels]") {
  CHECK(uniform_from(0) == 0.0f);
  CHECK(uniform_from(0xffu) == 0.0f);
  CHECK(uniform_from(0x100u) == 0x1p-24f);
  CHECK(uniform_from(0x80000000u) == 0.5f);
  CHECK(uniform_from(0xffffffffu) == 1.0f - 0x1p-24f);
}

TEST_CASE("least_word: the first whose number is at least p", "[kernels]") {
  CHECK(least_word(0) == 0);
  for (const float p : {0x1p-149f, 0x1p-24f, 0x1.8p-24f, 0.1f, 0.3f, 0.5f, 0x1.000002p-1f, 0.9f, 1.0f - 0x1p-24f}) {
    const std::uint32_t least = least_word(p);
    CHECK(uniform_from(least) >= p);
    CHECK(uniform_from(least - 1) < p);
  }
}

TEST_CASE("derive_key: of name and seed, the same for ever", "[kernels]") {
  // Other values would change the initial weights of a seed.
  CHECK(derive_key(1337, "blocks.0.attention.qkv.weight") == 0x4289b6e0f1050daeull);
  CHECK(derive_key(0, "") == 0xc3817c016ba4ff30ull);
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (int block = 0; block < 100; ++block)
      keys.insert(derive_key(seed, "blocks." + std::to_string(block) + ".weight"));
  }
  CHECK(keys.size() == 10000);
}

TEST_CASE("fill_normal: element i is the same however the range is cut", "[kernels]") {
  const std::vector<float> whole = normal(5, 0, 101);
  for (const Size part : {1, 2, 3, 4, 5, 7, 50}) {
    std::vector<float> pieces;
    for (Size begin = 0; begin < 101; begin += part) {
      const std::vector<float> piece = normal(5, static_cast<std::uint64_t>(begin), std::min(part, 101 - begin));
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    INFO("pieces of " << part);
    CHECK(pieces == whole);
  }
  // Far out, past 32 bits of index.
  const std::uint64_t far = (std::uint64_t{1} << 35) + 1;
  CHECK(normal(5, far, 6)[3] == normal(5, far + 3, 1)[0]);
  CHECK(normal(6, 0, 101) != whole);
}

TEST_CASE("fill_normal: mean, variance, skewness, kurtosis and tails of a normal distribution", "[kernels]") {
  constexpr Size kCount = 1 << 18;
  const std::vector<float> values = normal(derive_key(1337, "moments"), 0, kCount);
  const double n = kCount;
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, within1 = 0, within2 = 0, lag = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    m1 += x / n, m2 += x * x / n, m3 += x * x * x / n, m4 += x * x * x * x / n;
    within1 += std::abs(x) < 1, within2 += std::abs(x) < 2;
    if (i > 0) lag += x * static_cast<double>(values[i - 1]) / n;
  }
  // Bounds of four standard errors: of the k-th sample moment sqrt(var(x^k) / n), var(x^k) = 1, 2, 15, 96.
  CHECK(std::abs(m1) < 4 * std::sqrt(1 / n));
  CHECK(std::abs(m2 - 1) < 4 * std::sqrt(2 / n));
  CHECK(std::abs(m3) < 4 * std::sqrt(15 / n));
  CHECK(std::abs(m4 - 3) < 4 * std::sqrt(96 / n));
  CHECK(std::abs(within1 / n - 0.682689) < 4 * std::sqrt(0.6827 * 0.3173 / n));
  CHECK(std::abs(within2 / n - 0.954500) < 4 * std::sqrt(0.9545 * 0.0455 / n));
  CHECK(std::abs(lag) < 4 * std::sqrt(1 / n));  // neighbours from one pair of uniforms are uncorrelated
}

TEST_CASE("fill_normal: mean and deviation shift and scale", "[kernels]") {
  const std::vector<float> standard = normal(9, 10, 64);
  std::vector<float> values(64);
  fill_normal(values.data(), 9, 10, 64, 2.0f, 0.5f);
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == Approx(2.0 + 0.5 * standard[i]).margin(1e-6));
}
