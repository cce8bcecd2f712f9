// The header of a token file and of a mask: 256 little-endian int32 values. The first three are magic, version and
// token count; the rest are unused. A mask then has one bit for each token: bit i % 8 of byte i / 8, counted from the
// least significant bit, is 1 if token i is a target.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libtrain/dtype.h"

namespace lt::data {

inline constexpr Size kTokenHeaderBytes = 1024;
inline constexpr Size kMostTokens = 2147483647;  // in a file, because the header's count is an int32

struct TokenEncoding {
  std::int32_t magic, version;
  int width;  // bytes per token; tokens are little-endian and unsigned
};
inline constexpr TokenEncoding kTokenEncodings[] = {
    {20240520, 1, 2},
    {20240801, 7, 4},
};

inline constexpr std::int32_t kMaskMagic = 20261124, kMaskVersion = 1;

// Assembled byte by byte, so any alignment and host byte order works.
inline std::uint32_t load_u16(const unsigned char* p) { return static_cast<std::uint32_t>(p[0] | p[1] << 8); }
inline std::uint32_t load_u32(const unsigned char* p) { return load_u16(p) | load_u16(p + 2) << 16; }
inline void store_uint(unsigned char* p, std::uint32_t value, int width) {
  for (int b = 0; b < width; ++b) p[b] = static_cast<unsigned char>(value >> (8 * b));
}

}  // namespace lt::data
