// Charts as inline SVG. Each is drawn twice, for wide and for narrow screens, so that text keeps its size on a phone.
// The page's style sheet (style.h, html.cpp) shows one of the two and defines the colours .s0 ... (lines), .f0 ...
// (areas) and .k0 ... (legend). Points that are not finite are left out, and a line has a gap there.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lt::report {

inline constexpr int kChartColors = 9;

struct Series {
  std::string name;
  std::vector<double> x, y;  // x ascending
  bool dots = false;         // also draws a dot at each point, for few points
  bool dashed = false;
  std::size_t color = 0;  // set by figure(): the same for a series in charts that lack other ones
  // If not empty: the line that is drawn and named at the pointer, over a pale one of `y`; one value for each of `y`.
  std::vector<double> smooth = {};
};

// The mean of the `window` values around each, fewer at the ends; values that are not finite do not count.
std::vector<double> smoothed(const std::vector<double>& values, std::size_t window);

struct LineChart {
  std::string title, x_label, y_label;  // with units
  std::vector<Series> series = {};
  bool from_zero = false;
  bool whole_x = false;              // places on the x axis are whole numbers
  std::vector<double> x_ticks = {};  // if not empty: replaces the computed ticks; those that would overlap are skipped
  std::vector<double> marks = {};    // places on the x axis with a dotted line
  std::string marks_mean = {};       // what the note below says of them
};

// Columns of stacked layers.
struct StackedChart {
  std::string title, x_label, y_label, unit;
  std::vector<std::string> names;
  std::vector<double> x;
  std::vector<std::vector<double>> values;  // [layer][i], not negative
};

// Returns a <figure> with caption, legend and drawing; empty if there is nothing to draw.
std::string figure(const LineChart& chart);
// One figure of the same series, in the same order, over several x axes, of which the reader chooses one; the first is
// shown at the start. Charts without points are left out.
std::string figure(const std::vector<LineChart>& by_axis, const std::string& note = "");
std::string figure(const StackedChart& chart);

}  // namespace lt::report
