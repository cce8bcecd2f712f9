// Splits text into lines.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace lt::io {

inline std::vector<std::string> split_lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace lt::io
