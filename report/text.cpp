// Formats numbers and names for a report.
#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "record/short_text.h"

namespace lt::report {

std::string count_text(double count) {
  static constexpr std::array<const char*, 5> kUnits = {"", "k", "M", "G", "T"};
  if (!std::isfinite(count)) return kDash;
  std::size_t unit = 0;
  for (; std::abs(count) >= 999.5 && unit + 1 < kUnits.size(); ++unit) count /= 1000;
  const int digits = unit == 0 || std::abs(count) >= 99.95 ? 0 : std::abs(count) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", count, digits, kUnits[unit]);
}

std::string fixed_text(double value, int digits) {
  if (!std::isfinite(value)) return kDash;
  return std::abs(value) < kPowersFrom ? fmt::format("{:.{}f}", value, digits) : fmt::format("{:.4g}", value);
}

std::string ms_text(double ms) { return fixed_text(ms, std::abs(ms) >= 9.995 ? 1 : std::abs(ms) >= 0.1 ? 2 : 3); }

std::string ms_cell(double ms) { return fixed_text(ms, ms == 0 || std::abs(ms) >= 0.1 ? 2 : 3); }

std::string duration_text(double seconds) { return std::isfinite(seconds) ? recorder::short_duration(seconds) : kDash; }

std::string time_text(double unix_seconds) {
  if (!(std::abs(unix_seconds) < 1e11)) return kDash;
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  char text[32];
  return gmtime_r(&seconds, &utc) != nullptr && std::strftime(text, sizeof text, "%F %T UTC", &utc) > 0 ? text : kDash;
}

std::string flops_text(double per_second) {
  const bool tera = per_second >= 1e12, mega = per_second < 1e8;
  return fixed_text(per_second / (tera ? 1e12 : mega ? 1e6 : 1e9), 1) + (tera ? " T" : mega ? " M" : " G") + "FLOP/s";
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

}  // namespace lt::report
