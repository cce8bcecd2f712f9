// Converts ASCII letters to lower case.
#pragma once

#include <algorithm>
#include <string>

namespace lt::io {

inline std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

}  // namespace lt::io
