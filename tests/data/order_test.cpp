// The order of samples: a bijection for every n, different for every key, and the same in every version.
#include <vector>

#include "libtrain/data/data.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "test_main/catch.h"

namespace {

std::vector<lt::Size> first_of(std::uint64_t key, lt::Size count, lt::Size n) {
  std::vector<lt::Size> values;
  for (lt::Size i = 0; i < count; ++i) values.push_back(lt::permuted(key, i, n));
  return values;
}

}  // namespace

TEST_CASE("permuted: every element of [0, n) once", "[data]") {
  for (const lt::Size n : {1, 2, 3, 7, 63, 64, 65, 1000, 65537}) {
    for (const std::uint64_t key : {0ull, 1ull, 0xffffffffffffffffull}) {
      std::vector<int> seen(static_cast<std::size_t>(n), 0);
      lt::Size outside = 0;
      for (lt::Size i = 0; i < n; ++i) {
        const lt::Size value = lt::permuted(key, i, n);
        if (value < 0 || value >= n) {
          ++outside;
        } else {
          ++seen[static_cast<std::size_t>(value)];
        }
      }
      INFO("n = " << n << ", key = " << key);
      CHECK(outside == 0);
      CHECK(std::count(seen.begin(), seen.end(), 1) == n);
    }
  }
}

// Other values would change the data order of every run. They agree with a second implementation in Python integers,
// and its Philox reproduces the known answers of the paper's authors.
TEST_CASE("permuted: the values never change", "[data]") {
  using V = std::vector<lt::Size>;
  CHECK(first_of(1, 7, 7) == V{0, 1, 6, 3, 5, 4, 2});
  CHECK(first_of(42, 10, 10) == V{6, 3, 8, 2, 5, 0, 9, 4, 7, 1});
  CHECK(first_of(1337, 10, 1000) == V{123, 348, 806, 481, 171, 934, 800, 93, 799, 221});
  CHECK(lt::derive_key(1337, "data.epoch.0") == 12415933335726522944ull);
  CHECK(first_of(12415933335726522944ull, 10, 65537) ==
        V{22027, 7390, 35476, 45953, 33610, 45902, 37629, 55474, 34506, 52041});
  CHECK(lt::permuted(1, 123456789012, 1000000000000) == 760443479906);
}

TEST_CASE("permuted: keys give unrelated orders without structure", "[data]") {
  constexpr lt::Size n = 10007;
  const auto a = first_of(1, n, n), b = first_of(2, n, n);
  int same = 0, successors = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    same += a[i] == b[i];
    if (i > 0) successors += a[i] == a[i - 1] + 1;
  }
  // Both counts are about Poisson with mean 1 for random permutations; 8 or more has probability 1e-5.
  CHECK(same < 8);
  CHECK(successors < 8);
  // Half of the first 5003 values should lie in the lower half of the range: mean 2501, standard deviation 25.
  int low = 0;
  for (std::size_t i = 0; i < a.size() / 2; ++i) low += a[i] < n / 2;
  CHECK(std::abs(low - 2501) < 150);
}

TEST_CASE("permuted: an index outside is refused", "[data]") {
  CHECK_THROWS_AS(lt::permuted(1, 5, 5), lt::InternalError);
  CHECK_THROWS_AS(lt::permuted(1, -1, 5), lt::InternalError);
  CHECK_THROWS_AS(lt::permuted(1, 0, 0), lt::InternalError);
}
