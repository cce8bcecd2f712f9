// Reads a JSON file with untrusted contents.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "io/json_depth.h"
#include "io/whole_file.h"
#include "libtrain/error.h"

namespace lt::io {

// Throws DataError of `component` if the file cannot be read, is not JSON, has more than kMaxJsonDepth levels, or holds
// a number above 1e308.
inline nlohmann::ordered_json read_json_file(const std::string& component, const std::string& path) {
  const std::string text = read_whole_file(component, path);
  if (const int depth = json_depth(text); depth > kMaxJsonDepth) {
    throw DataError(component, fmt::format("{}: expected at most {} levels, got {}", path, kMaxJsonDepth, depth));
  }
  try {
    return nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::ordered_json::parse_error& error) {
    throw DataError(component, fmt::format("{}: expected JSON, got something else at byte {}", path, error.byte));
  } catch (const nlohmann::ordered_json::out_of_range&) {
    throw DataError(component, path + ": expected numbers up to 1e308, got a larger one");
  }
}

}  // namespace lt::io
