// One object of JSON lines, and errors that name its place.
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

// Python's limit. Values are never copied or printed recursively.
inline constexpr int kMaxLineDepth = 1000;

// Throws DataError: "<path>:<number>: <what>".
[[noreturn]] void refuse_line(const std::string& path, const JsonLine& line, const std::string& what,
                              const std::string& hint = "");
// The object of a line. Escapes of half a surrogate pair become U+FFFD. NaN, Infinity and numbers beyond double are
// read as `[0]`, which every field that is read refuses. Throws DataError for anything else, and
// for JSON of more than kMaxLineDepth levels.
nlohmann::json object_of(const std::string& path, const JsonLine& line);

}  // namespace lt::data
