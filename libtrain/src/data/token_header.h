// The header of a token file: 256 little-endian int32, of which three are used: magic, version, token count.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libtrain/dtype.h"

namespace lt {

inline constexpr Size kTokenHeaderBytes = 1024;

struct TokenEncoding {
  std::int32_t magic, version;
  int width;  // bytes of a token, little-endian and unsigned
};
inline constexpr TokenEncoding kTokenEncodings[] = {
    {20240520, 1, 2},
    {20240801, 7, 4},
};

// Assembled from bytes, so any alignment and any byte order of the host will do.
inline std::uint32_t load_u16(const unsigned char* p) { return static_cast<std::uint32_t>(p[0] | p[1] << 8); }
inline std::uint32_t load_u32(const unsigned char* p) { return load_u16(p) | load_u16(p + 2) << 16; }

}  // namespace lt
