// Stacked bar charts as HTML elements, one bar per run or owner. The text is above each bar, so it never overlaps.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lt::report {

struct BarChart {
  struct Row {
    std::string name;
    std::vector<double> values;  // one per name, not negative
  };
  std::string title;               // with the unit
  std::vector<std::string> names;  // of the values; a single name gets no legend
  std::vector<Row> rows;
  std::string (*text)(double value);  // formats a value with its unit
};

// Returns a <figure> with caption, legend and bars. The longest bar is as wide as the page. Returns an empty string if
// there is nothing to draw.
std::string figure(const BarChart& chart);

// One bar as wide as the page, divided into the parts of a whole.
struct ShareBar {
  struct Part {
    std::string text;  // in the legend
    double value;      // positive
    std::size_t color;
  };
  std::string title;
  std::vector<Part> parts;
};
std::string figure(const ShareBar& bar);

}  // namespace lt::report
