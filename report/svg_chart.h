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
  std::size_t color = 0;  // set by figure(); a series keeps its colour if the chart omits other series
  // If not empty: one value for each of `y`. The chart then draws this line over a pale line of `y`, and shows its
  // values at the pointer.
  std::vector<double> smooth = {};
};

// Returns for each value the mean of the `window` values around it, or of fewer at the ends. Skips values that are not
// finite.
std::vector<double> smoothed(const std::vector<double>& values, std::size_t window);

struct LineChart {
  std::string title, x_label, y_label;  // with units
  std::vector<Series> series = {};
  bool from_zero = false;
  bool whole_x = false;              // x values are whole numbers
  std::vector<double> x_ticks = {};  // ticks; skips ticks that would overlap; empty: computed ticks
  std::vector<double> marks = {};    // x values with a dotted vertical line
  std::string marks_mean = {};       // explains the marks in the note below the chart
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
// Returns one figure with a chart for each x axis. The reader chooses the axis; the first is shown initially. All
// charts must have the same series in the same order. Omits charts without points.
std::string figure(const std::vector<LineChart>& by_axis, const std::string& note = "");
std::string figure(const StackedChart& chart);

}  // namespace lt::report
