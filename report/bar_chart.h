// Stacked bars, one per run or owner, as elements of the page. Texts stand above the bars, so they never overlap.
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
  std::vector<std::string> names;  // one: no legend
  std::vector<Row> rows;
  std::string (*text)(double value);  // with the unit
};

// Returns a <figure> with caption, legend and bars, the longest as wide as the page; empty if there is nothing to draw.
std::string figure(const BarChart& chart);

}  // namespace lt::report
