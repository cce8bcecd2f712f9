// JSON, for the sources that read a run's files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lt::report {

using Json = nlohmann::ordered_json;

// A value as a cell shows it: text without its quotes, all else as JSON writes it.
inline std::string json_text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace lt::report
