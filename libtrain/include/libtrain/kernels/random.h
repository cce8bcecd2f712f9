// Counter-based random numbers. The i-th number of a stream is a pure function of (key, i). It does not depend on the
// rank or thread that computes it, nor on the order.
// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "libtrain/api.h"
#include "libtrain/dtype.h"

namespace LT_API lt {

// Returns the key of the random stream for `name` under `seed`.
std::uint64_t derive_key(std::uint64_t seed, std::string_view name);

// Returns the 64-bit product a * b.
constexpr std::uint64_t multiply_wide(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__  // nvcc would add zero to the upper half of the product below
  if (!std::is_constant_evaluated()) return std::uint64_t{__umulhi(a, b)} << 32 | a * b;
#endif
  return std::uint64_t{a} * b;
}

// Returns the four 32-bit random words of one 128-bit counter value.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                              std::uint64_t counter_high = 0) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter_low), c1 = static_cast<std::uint32_t>(counter_low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(counter_high), c3 = static_cast<std::uint32_t>(counter_high >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = multiply_wide(0xD2511F53u, c0), p1 = multiply_wide(0xCD9E8D57u, c2);
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1), c3 = static_cast<std::uint32_t>(p0), c0 = n0, c2 = n2;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

// Returns the random word of element `index`: word index % 4 of counter index / 4.
inline std::uint32_t philox_word(std::uint64_t key, std::uint64_t index) { return philox(key, index / 4)[index % 4]; }

// Returns a uniform number in [0, 1) made of the word's upper 24 bits.
constexpr float uniform_from(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
// Returns the smallest word w with uniform_from(w) >= p, for p in [0, 1). So `word >= least_word(p)` tests
// `uniform_from(word) >= p` without a conversion.
constexpr std::uint32_t least_word(float p) {
  const double scaled = static_cast<double>(p) * 0x1p24;
  const auto bits = static_cast<std::uint32_t>(scaled);
  return (bits + (bits < scaled ? 1 : 0)) << 8;
}

// values[j] = mean + deviation * z[begin + j] for j in [0, count). z is the standard normal stream of `key`, computed
// in double (Box and Muller 1958). `values` is in host memory.
void fill_normal(float* values, std::uint64_t key, std::uint64_t begin, Size count, float mean, float deviation);

}  // namespace lt
