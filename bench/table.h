// Tables that measurements print on standard error: columns of fixed width, numbers aligned right.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace lt::bench {

struct Column {
  const char* name;
  int width;  // negative: text, aligned left
};

// Formats scale * value with `digits` decimals.
inline std::string fixed(const nlohmann::ordered_json& value, int digits, double scale = 1) {
  return fmt::format("{:.{}f}", scale * value.get<double>(), digits);
}

// Prints one cell per column. A cell longer than its column shifts the rest of its line.
inline void print_cells(std::span<const Column> columns, const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const int width = columns[i].width;
    if (i > 0) line += ' ';
    line += width < 0 ? fmt::format("{:<{}}", cells.at(i), -width) : fmt::format("{:>{}}", cells.at(i), width);
  }
  std::fputs((line + "\n").c_str(), stderr);
}

inline void print_header(std::span<const Column> columns) {
  std::vector<std::string> names;
  for (const Column& column : columns) names.emplace_back(column.name);
  print_cells(columns, names);
}

}  // namespace lt::bench
