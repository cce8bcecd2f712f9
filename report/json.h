// JSON helpers for sources that read a run's files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "io/json_depth.h"

namespace lt::report {

using Json = nlohmann::ordered_json;

// Returns a discarded value if the text is not JSON, or nests deeper than any file of a run.
inline Json parsed_json(std::string_view text) {
  return io::json_depth(text) > io::kMaxJsonDepth ? Json(Json::value_t::discarded) : Json::parse(text, nullptr, false);
}

// A value as a table cell shows it: strings without quotes, everything else as JSON.
inline std::string json_text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace lt::report
