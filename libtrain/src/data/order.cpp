// The order of samples: a stateless permutation that any rank can evaluate at any index.
#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "libtrain/data/data.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"

namespace lt {
namespace {

// Luby and Rackoff (1988) need four rounds of a good round function. Twice as many make up for small halves.
constexpr std::uint64_t kRounds = 8;
// At least 64 elements, so that for a tiny n the walk runs through a permutation that mixes well.
constexpr int kMinHalfBits = 3;

// Applies a balanced Feistel network on 2 * half_bits bits once. It is a bijection for any round function.
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
  // Cycle walking: i itself is below n, so its cycle returns below n.
  auto x = static_cast<std::uint64_t>(i);
  do x = feistel(key, x, half_bits);
  while (x >= limit);
  return static_cast<Size>(x);
}

}  // namespace lt
