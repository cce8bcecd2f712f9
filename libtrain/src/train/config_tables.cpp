// Turns TOML tables and JSON text into tables, and checks their fields.
#include "train/config_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "io/json_depth.h"
#include "io/utf8.h"
#include "libtrain/error.h"
#include "train/nearest.h"

namespace lt::config {
namespace {

using Json = nlohmann::ordered_json;

Scalar scalar_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() >> 63 != 0) return static_cast<double>(json);
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array() && std::ranges::all_of(json, [](const Json& element) { return element.is_string(); })) {
    return json.get<std::vector<std::string>>();
  }
  return Unsupported{json.type_name()};
}

// Returns nullopt if the text is not an array of objects.
std::optional<std::vector<Table>> tables_of(const std::string& text) {
  if (json_depth(text) > kMaxJsonDepth) return std::nullopt;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_array()) return std::nullopt;
  std::vector<Table> tables;
  for (const Json& element : json) {
    if (!element.is_object()) return std::nullopt;
    Table& table = tables.emplace_back();
    for (const auto& [name, value] : element.items()) table.emplace_back(name, scalar_of(value));
  }
  return tables;
}

std::optional<std::vector<Table>> tables_of(const Value& value) {
  if (const auto* text = std::get_if<Text>(&value)) {
    return text->text.empty() ? std::vector<Table>{} : tables_of(text->text);
  }
  if (const auto* tables = std::get_if<std::vector<Table>>(&value)) return *tables;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value); list != nullptr && list->empty()) {
    return std::vector<Table>{};
  }
  return std::nullopt;
}

std::string text_of(const Scalar& value) {
  return std::visit(
      []<class T>(const T& v) {
        if constexpr (std::is_same_v<T, Unsupported>) {
          return v.text;
        } else if constexpr (std::is_same_v<T, std::string>) {
          return '"' + v + '"';
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          return fmt::format("[{}]", v.empty() ? "" : fmt::format("\"{}\"", fmt::join(v, "\", \"")));
        } else {
          return fmt::format("{}", v);
        }
      },
      value);
}

}  // namespace

std::vector<Table> tables_from(const Value& value, const std::string& key, const std::string& source,
                               const char* example) {
  if (auto tables = tables_of(value)) return *tables;
  const auto* text = std::get_if<Text>(&value);
  throw UsageError("config",
                   fmt::format("{}: expected tables, got {} ({})", key,
                               text != nullptr ? "'" + text->text + "'" : "another value", source),
                   text != nullptr ? fmt::format("as JSON: '{}'", example) : fmt::format("[[{}]] begins each", key));
}

TableFields::TableFields(const std::string& key, std::size_t element, std::string source)
    : name_(fmt::format("{}[{}]", key, element)), source_(std::move(source)) {}

std::string TableFields::text(const std::string& field, const Scalar& value) const {
  const auto* given = std::get_if<std::string>(&value);
  if (given == nullptr || !is_utf8(*given)) fail(field, "text", value);
  return *given;
}

std::vector<std::string> TableFields::texts(const std::string& field, const Scalar& value) const {
  const auto* one = std::get_if<std::string>(&value);
  const auto* list = std::get_if<std::vector<std::string>>(&value);
  const std::vector<std::string> given = one != nullptr    ? std::vector{*one}
                                         : list != nullptr ? *list
                                                           : decltype(given)();
  const auto is_text = [](const std::string& v) { return !v.empty() && is_utf8(v); };
  if (given.empty() || !std::ranges::all_of(given, is_text)) fail(field, "text or a list of texts", value);
  return given;
}

double TableFields::number(const std::string& field, const Scalar& value) const {
  const auto* integer = std::get_if<std::int64_t>(&value);
  const auto* real = std::get_if<double>(&value);
  const double given = integer != nullptr ? static_cast<double>(*integer) : real != nullptr ? *real : -1;
  if (!(given >= 0) || !std::isfinite(given)) fail(field, "a number of at least 0", value);
  return given;
}

void TableFields::fail(const std::string& field, const std::string& expected, const Scalar& value) const {
  throw UsageError("config",
                   fmt::format("{}.{}: expected {}, got {} ({})", name_, field, expected, text_of(value), source_));
}

void TableFields::refuse(const std::string& field, const std::vector<std::string>& known) const {
  throw UsageError("config", fmt::format("unknown field {}.{} ({})", name_, field, source_),
                   nearest_hint(field, known, "docs/configuration.md"));
}

void TableFields::fail_missing(const std::string& field, const std::string& expected) const {
  throw UsageError("config", fmt::format("{}.{}: expected {}, got none ({})", name_, field, expected, source_));
}

}  // namespace lt::config
