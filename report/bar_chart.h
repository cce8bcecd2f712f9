// Stacked bar charts as HTML elements, one bar per run or owner. The text stands above each bar, so it never overlaps.
#pragma once

#include <string>
#include <vector>

namespace lt::report {

struct BarChart {
  struct Row {
    std::string name;
    std::vector<double> values;  // one per name, not negative
  };
  std::string title;               // with the unit
  std::vector<std::string> names;  // a single one: no legend
  std::vector<Row> rows;
  std::string (*text)(double value);  // with the unit
};

// Returns a <figure> with caption, legend and bars, the longest as wide as the page; empty if there is nothing to draw.
std::string figure(const BarChart& chart);

}  // namespace lt::report
