// Keys of random streams and the normal distribution on top of Philox.
#include "libtrain/kernels/random.h"

#include <cmath>
#include <numbers>

namespace lt {

// FNV-1a over the name, then a finaliser that mixes every bit (Steele, Lea, Flood 2014: SplitMix64).
std::uint64_t derive_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  std::uint64_t z = hash + seed * 0x9e3779b97f4a7c15ull + 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Words 2k and 2k+1 of a counter make elements 2k and 2k+1.
void fill_normal(float* values, std::uint64_t key, std::uint64_t begin, Size count, float mean, float deviation) {
  const std::uint64_t end = begin + static_cast<std::uint64_t>(count);
  for (std::uint64_t counter = begin / 4; 4 * counter < end; ++counter) {
    const auto words = philox(key, counter);
    for (std::uint64_t lane = 0; lane < 4; lane += 2) {
      const double u1 = (static_cast<double>(words[lane]) + 1.0) * 0x1p-32,
                   u2 = static_cast<double>(words[lane + 1]) * 0x1p-32;
      const double radius = std::sqrt(-2.0 * std::log(u1)), angle = 2.0 * std::numbers::pi * u2;
      const double normal[2] = {radius * std::cos(angle), radius * std::sin(angle)};
      for (std::uint64_t j = 0; j < 2; ++j) {
        const std::uint64_t index = 4 * counter + lane + j;
        if (index >= begin && index < end) values[index - begin] = static_cast<float>(mean + deviation * normal[j]);
      }
    }
  }
}

}  // namespace lt
