// Formats the numbers and text of a report.
#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "record/short_text.h"

namespace lt::report {
namespace {

constexpr const char* kDash = "–";

// Length of the UTF-8 sequence at the front of `text`, or 0 where there is none.
std::size_t utf8_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xC2 && lead < 0xE0 ? 2
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                                                           : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string bytes_text(double bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  if (!std::isfinite(bytes)) return kDash;
  std::size_t unit = 0;
  for (; std::abs(bytes) >= 1023.5 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  const int digits = unit == 0 || std::abs(bytes) >= 99.95 ? 0 : std::abs(bytes) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", bytes, digits, kUnits[unit]);
}

std::string count_text(double count) {
  static constexpr std::array<const char*, 5> kUnits = {"", "k", "M", "G", "T"};
  if (!std::isfinite(count)) return kDash;
  std::size_t unit = 0;
  for (; std::abs(count) >= 999.5 && unit + 1 < kUnits.size(); ++unit) count /= 1000;
  const int digits = unit == 0 || std::abs(count) >= 99.95 ? 0 : std::abs(count) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", count, digits, kUnits[unit]);
}

std::string fixed_text(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : kDash;
}

std::string duration_text(double seconds) { return std::isfinite(seconds) ? short_duration(seconds) : kDash; }

std::string time_text(double unix_seconds) {
  if (!(std::abs(unix_seconds) < 1e11)) return kDash;
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  char text[32];
  return gmtime_r(&seconds, &utc) != nullptr && std::strftime(text, sizeof text, "%F %T UTC", &utc) > 0 ? text : kDash;
}

std::string percent_text(double fraction, int digits) {
  return std::isfinite(fraction) ? fmt::format("{:.{}f}%", 100 * fraction, digits) : kDash;
}

std::string whole_text(double value) { return fixed_text(value, 0); }

std::string rate_text(double value) {
  return value > 0 && value < 0.1 ? fmt::format("{:#.2g}", value) : fixed_text(value, 2);
}

std::string spaced(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const char c = text[0];
    const std::size_t length = utf8_length(text);
    const bool control = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
    if (length == 0 || control || c == 0x7F) {
      out += control && c == '\r' ? "" : "\xEF\xBF\xBD";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace lt::report
