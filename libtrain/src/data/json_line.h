// One object of JSON lines, and errors that name its place.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "libtrain/dtype.h"

namespace lt {

// A line of a file, and its number from 1.
struct JsonLine {
  std::string_view text;
  Size number;
};

// As deep as Python's reader goes. Nothing prints or copies a line's value, so this is only about its memory.
inline constexpr int kMaxLineDepth = 1000;

// Throws DataError: "<path>:<number>: <what>".
[[noreturn]] void refuse_line(const std::string& path, const JsonLine& line, const std::string& what,
                              const std::string& hint = "");
// The object of a line. Escapes of half a surrogate pair become U+FFFD. NaN, Infinity and numbers beyond double are
// `[]`, which no field of a line may be: lines have them where nobody reads. Throws DataError for anything else, and
// for JSON of more than kMaxLineDepth levels.
nlohmann::json object_of(const std::string& path, const JsonLine& line);

}  // namespace lt
