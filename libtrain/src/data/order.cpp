// The order of samples: a permutation that any rank can evaluate at any index without state.
#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "libtrain/data/data.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"

namespace lt {
namespace {

// Luby and Rackoff (1988) need four rounds of a good round function; small halves get twice as many.
constexpr std::uint64_t kRounds = 8;
// At least 64 elements, so that the walk of a tiny n passes through a permutation that mixes.
constexpr int kMinHalfBits = 3;

// One pass of a balanced Feistel network on 2 * half_bits bits: a bijection whatever the round function is.
std::uint64_t feistel(std::uint64_t key, std::uint64_t x, int half_bits) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = x >> half_bits, right = x & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    left ^= philox(key, right, round)[0] & mask;
    std::swap(left, right);
  }
  return left << half_bits | right;
}

}  // namespace

Size permuted(std::uint64_t key, Size i, Size n) {
  if (i < 0 || i >= n) {
    throw InternalError("data", "permuted: index " + std::to_string(i) + " is not in [0, " + std::to_string(n) + ")");
  }
  const auto limit = static_cast<std::uint64_t>(n);
  const int half_bits = std::max<int>(kMinHalfBits, (std::bit_width(limit - 1) + 1) / 2);
  // Cycle walking: i itself is below n, so its cycle comes back below n.
  auto x = static_cast<std::uint64_t>(i);
  do x = feistel(key, x, half_bits);
  while (x >= limit);
  return static_cast<Size>(x);
}

}  // namespace lt
