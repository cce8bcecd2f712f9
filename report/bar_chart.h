// Stacked bars, one for each run or owner, as elements of the page: their texts stand above them and so never overlap.
#pragma once

#include <string>
#include <vector>

namespace lt::report {

struct BarChart {
  struct Row {
    std::string name;
    std::vector<double> values;  // of the names, not negative
  };
  std::string title;               // with the unit
  std::vector<std::string> names;  // one: no legend
  std::vector<Row> rows;
  std::string (*text)(double value);  // with the unit
};

// A <figure> with caption, legend and bars, the longest as wide as the page; empty where there is nothing to draw.
std::string figure(const BarChart& chart);

}  // namespace lt::report
