// Ticks of an axis, and how wide its texts are.
#pragma once

#include <string>
#include <vector>

namespace lt::drawing {

struct Range {
  double low, high;
};

// Multiples of 1, 2 or 5 times a power of ten: about `count` of them, the first not above low, the last not below high.
std::vector<double> outer_ticks(Range range, int count);
// The same, inside the range; whole numbers where `whole`.
std::vector<double> inner_ticks(Range range, int count, bool whole);
// "0.25", "20k": as many digits as the distance of the ticks needs.
std::vector<std::string> tick_texts(const std::vector<double>& ticks);
// Width of a text in the chart's font at most, in units of the drawing.
double text_width(const std::string& text);

}  // namespace lt::drawing
