// Whether bytes are UTF-8, which TOML and JSON files must be.
#pragma once

#include <string_view>

namespace lt {

// Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.
inline bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) {
      return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : static_cast<unsigned char>(0);
    };
    const auto in = [](unsigned char b, unsigned char low, unsigned char high) { return b >= low && b <= high; };
    const auto tail = [&](std::size_t k) { return in(byte(k), 0x80, 0xbf); };
    const unsigned char b = byte(0);
    if (b < 0x80) {
      i += 1;
    } else if (in(b, 0xc2, 0xdf) && tail(1)) {
      i += 2;
    } else if (in(b, 0xe0, 0xef) && in(byte(1), b == 0xe0 ? 0xa0 : 0x80, b == 0xed ? 0x9f : 0xbf) && tail(2)) {
      i += 3;
    } else if (in(b, 0xf0, 0xf4) && in(byte(1), b == 0xf0 ? 0x90 : 0x80, b == 0xf4 ? 0x8f : 0xbf) && tail(2) &&
               tail(3)) {
      i += 4;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace lt
