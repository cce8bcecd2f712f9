// Ticks of an axis, and the widths of their texts.
#pragma once

#include <string>
#include <vector>

namespace lt::drawing {

struct Range {
  double low, high;
};

// About `count` multiples of 1, 2 or 5 times a power of ten. The first is not above low, the last not below high. A
// range shorter than 1e-12 of its magnitude is treated as a constant.
std::vector<double> outer_ticks(Range range, int count);
// Like outer_ticks(), but inside the range, and only `low` for a constant. Only whole numbers if `whole`.
std::vector<double> inner_ticks(Range range, int count, bool whole);
// "0.25", "20k": with as many digits as the distance between ticks needs.
std::vector<std::string> tick_texts(const std::vector<double>& ticks);
// An upper bound on the width of a text in the chart's font, in units of the drawing.
double text_width(const std::string& text);

}  // namespace lt::drawing
