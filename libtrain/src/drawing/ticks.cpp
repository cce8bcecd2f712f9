// Computes ticks from a step of 1, 2 or 5 times a power of ten.
#include "drawing/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "drawing/text.h"

namespace lt::drawing {
namespace {

constexpr double kCharacter = 7.2;  // widest usual digit of the 12 px font

// Values that differ by less than this share of their magnitude are drawn as one: neighbouring multiples of such a
// small step are the same double.
constexpr double kResolution = 1e-12;
constexpr double kSmallest = 1e-280;  // smaller magnitudes count as zero
constexpr int kMostDigits = 9;        // after the point; numbers that need more are written with a power of ten

bool is_constant(Range range) {
  const double magnitude = std::max({std::abs(range.low), std::abs(range.high), kSmallest});
  return !(range.high - range.low > kResolution * magnitude);
}

double nice_step(double span, int count) {
  const double raw = span / count, power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power * (1 + 1e-9)) return factor * power;
  }
  return 10 * power;
}

// The power of ten of a positive number's first digit.
int power_of(double value) { return static_cast<int>(std::floor(std::log10(value) + 1e-9)); }

std::vector<double> multiples(double step, double first, double last) {
  std::vector<double> ticks;
  for (double i = first; i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

}  // namespace

std::vector<double> outer_ticks(Range range, int count) {
  if (is_constant(range)) {
    const bool zero = std::abs(range.low) <= kSmallest;
    const double room = zero ? 1 : std::abs(range.low) * 0.05;
    range = {zero ? 0 : range.low - room, range.high + room};
  }
  const double step = nice_step(range.high - range.low, count);
  return multiples(step, std::floor(range.low / step + 1e-9), std::ceil(range.high / step - 1e-9));
}

std::vector<double> inner_ticks(Range range, int count, bool whole) {
  if (is_constant(range)) return {range.low};
  double step = nice_step(range.high - range.low, std::max(1, count));
  if (whole) step = std::max(1.0, step);
  return multiples(step, std::ceil(range.low / step - 1e-9), std::floor(range.high / step + 1e-9));
}

std::vector<std::string> tick_texts(const std::vector<double>& ticks) {
  double largest = 0, step = 0;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    largest = std::max(largest, std::abs(ticks[i]));
    if (i == 1) step = ticks[1] - ticks[0];
  }
  const double scale = largest >= 1e9 ? 1e9 : largest >= 1e6 ? 1e6 : largest >= 1e4 ? 1e3 : 1;
  const char* suffix = scale == 1e9 ? "G" : scale == 1e6 ? "M" : scale == 1e3 ? "k" : "";
  // The digits after the point that tell neighbours apart.
  const int digits = step > 0 ? -power_of(step / scale) : 0;
  const bool by_power = digits > kMostDigits || largest >= kPowersFrom;
  const int significant = step > 0 ? power_of(largest) - power_of(step) : 3;
  std::vector<std::string> texts;
  for (double tick : ticks) {
    if (tick == 0) {
      texts.push_back("0");
    } else if (by_power) {
      texts.push_back(fmt::format("{:.{}e}", tick, std::clamp(significant, 0, 15)));
    } else {
      texts.push_back(fmt::format("{:.{}f}{}", tick / scale, std::max(digits, 0), suffix));
    }
  }
  return texts;
}

double text_width(const std::string& text) { return kCharacter * static_cast<double>(text.size()); }

}  // namespace lt::drawing
