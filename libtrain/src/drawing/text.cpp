// Formats sizes and escapes text.
#include "drawing/text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "io/utf8.h"

namespace lt::drawing {

std::string bytes_text(double bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  if (!std::isfinite(bytes)) return kDash;
  std::size_t unit = 0;
  for (; std::abs(bytes) >= 1023.5 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  const int digits = unit == 0 || std::abs(bytes) >= 99.95 ? 0 : std::abs(bytes) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", bytes, digits, kUnits[unit]);
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const char c = text[0];
    const std::size_t length = io::utf8_length(text);
    const bool control = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
    if (length == 0 || control || c == 0x7F) {
      out += control && c == '\r' ? "" : "\xEF\xBF\xBD";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace lt::drawing
