// Encodes and decodes base64.
#include "io/base64.h"

#include <algorithm>
#include <cstdint>

namespace lt::io {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    std::uint32_t bits = 0;
    for (std::size_t b = 0; b < 3; ++b)
      bits = bits << 8 | (b < group.size() ? static_cast<unsigned char>(group[b]) : 0u);
    for (std::size_t d = 0; d < 4; ++d) text += d <= group.size() ? kDigits[bits >> (18 - 6 * d) & 63u] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const std::string_view group = text.substr(i, 4);
    std::uint32_t bits = 0;
    const std::size_t digits = std::min(group.size(), group.find('='));
    for (std::size_t d = 0; d < digits; ++d) {
      const std::size_t digit = kDigits.find(group[d]);
      if (digit == std::string_view::npos) return std::nullopt;
      bits |= static_cast<std::uint32_t>(digit) << (18 - 6 * d);
    }
    for (std::size_t b = 0; b + 1 < digits; ++b) bytes += static_cast<char>(bits >> (16 - 8 * b) & 255u);
  }
  // Another length, more padding or bits that no byte has would not come back.
  if (to_base64(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace lt::io
