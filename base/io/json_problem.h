// Describes why a text is not a JSON object.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "io/json_depth.h"
#include "io/utf8.h"

namespace lt::io {

// "JSON nested more than 32 levels deep", "broken JSON at line 3, column 5: ...", "broken JSON: number overflow ...",
// or the JSON type of the text, such as "array". For error messages only, because it parses the text once more.
inline std::string json_problem(std::string_view text, int most_levels = kMaxJsonDepth) {
  if (json_depth(text) > most_levels) return fmt::format("JSON nested more than {} levels deep", most_levels);
  try {
    return nlohmann::json::parse(text.begin(), text.end()).type_name();
  } catch (const nlohmann::json::exception& error) {
    constexpr std::string_view kPlace = "parse error at ", kName = "] ";
    constexpr std::size_t kMost = 200;  // bytes; the message may quote long text
    std::string_view what = error.what();
    const std::size_t place = what.find(kPlace), name = what.find(kName);
    const bool has_place = place != what.npos;
    if (has_place) what.remove_prefix(place + kPlace.size());
    if (!has_place && name != what.npos) what.remove_prefix(name + kName.size());
    return (has_place ? "broken JSON at " : "broken JSON: ") + repaired_utf8(what.substr(0, kMost)) +
           (what.size() > kMost ? "..." : "");
  }
}

}  // namespace lt::io
