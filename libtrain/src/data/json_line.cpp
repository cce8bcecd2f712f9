// Parses lines of JSON.
#include "data/json_line.h"

#include <fmt/format.h>

#include "io/json_depth.h"
#include "libtrain/error.h"

namespace lt {

void refuse_line(const std::string& path, const JsonLine& line, const std::string& what) {
  throw DataError("data", fmt::format("{}:{}: {}", path, line.number, what));
}

nlohmann::json object_of(const std::string& path, const JsonLine& line) {
  const bool is_deep = json_depth(line.text) > kMaxJsonDepth;
  nlohmann::json json = is_deep ? nlohmann::json(nlohmann::json::value_t::discarded)
                                : nlohmann::json::parse(line.text.begin(), line.text.end(), nullptr, false);
  if (!json.is_object()) {
    refuse_line(path, line,
                fmt::format("expected a JSON object on one line, found {}", is_deep ? "too deeply nested JSON"
                                                                            : json.is_discarded() ? "broken JSON"
                                                                                                  : json.type_name()));
  }
  return json;
}

}  // namespace lt
