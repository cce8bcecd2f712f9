// The layout of an arena drawing and its texts. Texts are drawn once for each kind of screen: wide and narrow.
#pragma once

#include <string>
#include <vector>

namespace lt::drawing {

inline constexpr double kWidth = 860, kHeight = 720;
inline constexpr double kLeft = 84, kRight = 844;  // edges of the area between the axes

// The texts for one kind of screen. `size` is their scale relative to 12 units.
struct Texts {
  const char* css_class;
  double size;
  std::size_t characters;  // per line
  std::size_t columns;     // in the legend

  double line() const { return 15 * size; }
  double bottom() const { return kHeight - 2.6 * line(); }  // lower edge of the area between the axes
};
inline constexpr Texts kWide = {"arena-wide", 1, 116, 6}, kNarrow = {"arena-narrow", 7.0 / 3, 48, 3};

struct Scales {
  double end = 1;   // latest time
  double unit = 1;  // bytes per unit of the y axis
  const char* unit_name = "B";
  std::vector<double> y_ticks;              // in units
  double top = 0, bottom = kWide.bottom();  // edges of the area between the axes

  double x(double time) const { return kLeft + time / end * (kRight - kLeft); }
  double y(double bytes) const { return bottom - bytes / unit / y_ticks.back() * (bottom - top); }
};

// The markup above the area between the axes (note, legend and name of the y axis), and the smallest y of the area.
struct Head {
  std::string drawn;
  double bottom = 0;
};
// `owners` are indices of kMemoryOwnerNames.
Head draw_head(const Texts& texts, const std::string& note, const std::vector<std::size_t>& owners,
               const std::string& y_label);

// The markup of both axes' ticks and the name of the x axis.
std::string draw_axes(const Texts& texts, const Scales& scales);

}  // namespace lt::drawing
