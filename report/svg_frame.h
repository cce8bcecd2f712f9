// The frame of a chart: the area between the margins, its axes with ticks that never overlap, and the scales.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "drawing/ticks.h"

namespace lt::report {

using drawing::inner_ticks;
using drawing::outer_ticks;
using drawing::Range;
using drawing::text_width;
using drawing::tick_texts;

struct Canvas {
  const char* css_class;  // "wide" or "narrow"
  double width, height;
  int columns;  // maximum number of hover areas, and of stacked columns
};
inline constexpr Canvas kCanvases[] = {{"wide", 860, 300, 120}, {"narrow", 360, 260, 45}};

// Formats a value for a hover text: four significant digits, or like count_text() from 1e4 on.
std::string number_text(double value);
struct LegendEntry {
  std::string name;
  std::size_t color;
  bool dashed = false;
};
// Opens a <figure> with its caption and the legend.
std::string open_figure(const std::string& title, const std::vector<LegendEntry>& legend);
// Like open_figure() above, with a legend of `names` whose colours follow their order.
std::string open_figure(const std::string& title, const std::vector<std::string>& names);

struct Hover {
  double from, to;
  std::vector<std::string> values;  // one for each name; must not contain ; or |
};

class Frame {
 public:
  // The y axis covers all of `y_ticks`.
  Frame(const Canvas& canvas, Range x, std::vector<double> y_ticks);

  double x(double value) const { return left_ + (value - x_.low) / (x_.high - x_.low) * plot_width(); }
  double y(double value) const { return bottom_ - (value - y_.low) / (y_.high - y_.low) * (bottom_ - top_); }
  double left() const { return left_; }
  double right() const { return right_; }
  double top() const { return top_; }
  double bottom() const { return bottom_; }
  double plot_width() const { return right_ - left_; }
  double y_high() const { return y_.high; }

  // Opens the <svg> and draws the grid, the y ticks and the labels.
  std::string open(const std::string& title, const std::string& x_label, const std::string& y_label) const;
  std::string x_tick(double position, const std::string& text) const;
  // Returns one invisible area over the plot that holds the values of all columns as data. The page's script shows the
  // values of the column at the pointer. names[0] labels the column, and the other names label its values. Empty values
  // are not shown.
  std::string hovers(const std::vector<std::string>& names, const std::string& unit,
                     const std::vector<Hover>& columns) const;

 private:
  const Canvas& canvas_;
  Range x_, y_;
  std::vector<double> y_ticks_;
  std::vector<std::string> y_texts_;
  double left_, right_, top_, bottom_;
};

}  // namespace lt::report
