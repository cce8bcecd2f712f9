// Parses a line of JSON; errors name file and line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "libtrain/dtype.h"

namespace lt::data {

// A line of a file, and its number from 1.
struct JsonLine {
  std::string_view text;
  Size number;
};

// Levels of nesting, as in Python. Values are never copied or printed recursively.
inline constexpr int kMaxLineDepth = 1000;

// Throws DataError: "<path>:<number>: <what>".
[[noreturn]] void refuse_line(const std::string& path, const JsonLine& line, const std::string& what,
                              const std::string& hint = "");
// Returns the object of a line. Escapes of half a surrogate pair become U+FFFD. NaN, Infinity and numbers beyond double
// become `[0]`, which every used field rejects. Throws DataError if the line is not an object, or has more than
// kMaxLineDepth levels.
nlohmann::json object_of(const std::string& path, const JsonLine& line);

}  // namespace lt::data
