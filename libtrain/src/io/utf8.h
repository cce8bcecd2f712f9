// Checks for UTF-8, the required encoding of TOML and JSON files.
#pragma once

#include <cstddef>
#include <string_view>

namespace lt {

// Returns the length in bytes of the first character of `text`, or 0 if it is invalid. `text` must not be empty.
// Follows Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.
inline std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : static_cast<unsigned char>(0);
  };
  const auto in = [](unsigned char b, unsigned char low, unsigned char high) { return b >= low && b <= high; };
  const auto tail = [&](std::size_t i) { return in(byte(i), 0x80, 0xbf); };
  const unsigned char b = byte(0);
  if (b < 0x80) return 1;
  if (in(b, 0xc2, 0xdf) && tail(1)) return 2;
  if (in(b, 0xe0, 0xef) && in(byte(1), b == 0xe0 ? 0xa0 : 0x80, b == 0xed ? 0x9f : 0xbf) && tail(2)) return 3;
  if (in(b, 0xf0, 0xf4) && in(byte(1), b == 0xf0 ? 0x90 : 0x80, b == 0xf4 ? 0x8f : 0xbf) && tail(2) && tail(3))
    return 4;
  return 0;
}

inline bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace lt
