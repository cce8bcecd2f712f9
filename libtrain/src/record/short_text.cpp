// Formats numbers for display.
#include "record/short_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lt::recorder {

std::string short_count(double value) {
  for (const auto& [unit, name] : {std::pair{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}) {
    if (value >= unit * 0.9995) return fmt::format("{:.3g}{}", value / unit, name);
  }
  return fmt::format("{:.0f}", value);
}

std::string short_duration(double seconds) {
  constexpr double kMostHours = 1e9;
  if (seconds >= 3600 * kMostHours) return fmt::format("over {:.0f}h", kMostHours);
  const auto s = static_cast<long>(std::lround(std::max(0.0, seconds)));
  if (s >= 3600) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  if (s >= 60) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}s", s);
}

std::string counted(Size count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace lt::recorder
