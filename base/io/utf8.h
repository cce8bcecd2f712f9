// Checks and repairs UTF-8, the encoding of text, TOML and JSON files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace lt::io {

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

// Returns the code point of the first character. `length` is the result of utf8_length() and not 0.
inline char32_t utf8_character(std::string_view text, std::size_t length) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  if (length == 1) return byte(0);
  char32_t character = byte(0) & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) character = character << 6 | (byte(i) & 0x3fu);
  return character;
}

// Returns the number of bytes before the first invalid character; text.size() if all are valid.
inline std::size_t valid_utf8_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

inline bool is_utf8(std::string_view text) { return valid_utf8_bytes(text) == text.size(); }

// Returns the length of the longest prefix of `text`, at most 3 bytes, that can begin a character; 0 if its first byte
// cannot. The first character of `text` must be invalid.
inline std::size_t utf8_begun(std::string_view text) {
  // Append the lowest valid continuation bytes and check if they complete a character.
  std::size_t begun = 0;
  for (std::size_t length = 1; length <= 3 && length <= text.size(); ++length) {
    bool may_go_on = false;
    for (const char second : {'\x80', '\x90', '\xa0'}) {
      std::string whole(text.substr(0, length));
      if (length == 1) whole += second;
      while (whole.size() < 4 && utf8_length(whole) != whole.size()) whole += '\x80';
      may_go_on = may_go_on || utf8_length(whole) > length;
    }
    if (!may_go_on) break;
    begun = length;
  }
  return begun;
}

// Replaces every invalid sequence by U+FFFD. A sequence is the longest prefix that can begin a character, or else one
// byte (Unicode 15, section 3.9, "U+FFFD Substitution of Maximal Subparts").
inline std::string repaired_utf8(std::string_view text) {
  std::string repaired;
  while (!text.empty()) {
    std::size_t length = utf8_length(text);
    if (length > 0) {
      repaired += text.substr(0, length);
    } else {
      repaired += "\xEF\xBF\xBD";
      length = std::max<std::size_t>(1, utf8_begun(text));
    }
    text.remove_prefix(length);
  }
  return repaired;
}

}  // namespace lt::io
