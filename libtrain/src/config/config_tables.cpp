// Turns TOML tables and JSON text into tables, and checks their fields.
#include "config/config_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "config/nearest.h"
#include "io/json_depth.h"
#include "io/utf8.h"
#include "libtrain/error.h"

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

Json json_of(const std::string& text) {
  return io::json_depth(text) > io::kMaxJsonDepth ? Json() : Json::parse(text, nullptr, false);
}

// Both return nullopt if the JSON is something else.
std::optional<Table> table_of(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  Table table;
  for (const auto& [name, value] : json.items()) table.emplace_back(name, scalar_of(value));
  return table;
}

std::optional<std::vector<Table>> tables_of(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<Table> tables;
  for (const Json& element : json) {
    const std::optional<Table> table = table_of(element);
    if (!table) return std::nullopt;
    tables.push_back(*table);
  }
  return tables;
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

// NaN if the value is no finite number.
double number_of(const Scalar& value) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const auto* integer = std::get_if<std::int64_t>(&value);
  const auto* real = std::get_if<double>(&value);
  const double given = integer != nullptr ? static_cast<double>(*integer) : real != nullptr ? *real : kNone;
  return std::isfinite(given) ? given : kNone;
}

[[noreturn]] void refuse_value(const Value& value, const std::string& key, const char* expected, const char* example,
                               const std::string& hint) {
  const auto* text = std::get_if<Text>(&value);
  throw UsageError("config", key, expected, text != nullptr ? "'" + text->text + "'" : "another value",
                   text != nullptr ? fmt::format("as JSON: '{}'", example) : hint);
}

}  // namespace

bool is_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && (text[first] == '[' || text[first] == '{');
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (std::size_t begin = 0, end = 0; end != text.npos; begin = end + 1) {
    end = text.find(',', begin);
    parts.push_back(text.substr(begin, end == text.npos ? end : end - begin));
  }
  return parts;
}

std::vector<Table> tables_from(const Value& value, const std::string& key, const char* example) {
  if (const auto* text = std::get_if<Text>(&value)) {
    if (text->text.empty()) return {};
    if (auto tables = tables_of(json_of(text->text))) return *std::move(tables);
  }
  if (const auto* tables = std::get_if<std::vector<Table>>(&value)) return *tables;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value); list != nullptr && list->empty()) return {};
  refuse_value(value, key, "tables", example, fmt::format("[[{}]] begins each", key));
}

Table table_from(const Value& value, const std::string& key, const char* example) {
  if (const auto* text = std::get_if<Text>(&value)) {
    if (text->text.empty()) return {};
    if (auto table = table_of(json_of(text->text))) return *std::move(table);
  }
  if (const auto* table = std::get_if<Table>(&value)) return *table;
  refuse_value(value, key, "a table", example, fmt::format("[{}] begins it", key));
}

TableFields::TableFields(const std::string& key, std::size_t element) : name_(fmt::format("{}[{}]", key, element)) {}

std::string TableFields::text(const std::string& field, const Scalar& value) const {
  const auto* given = std::get_if<std::string>(&value);
  if (given == nullptr || !io::is_utf8(*given)) fail(field, "text", value);
  return *given;
}

std::vector<std::string> TableFields::texts(const std::string& field, const Scalar& value) const {
  const auto* one = std::get_if<std::string>(&value);
  const auto* list = std::get_if<std::vector<std::string>>(&value);
  const std::vector<std::string> given = one != nullptr    ? std::vector{*one}
                                         : list != nullptr ? *list
                                                           : decltype(given)();
  const auto is_text = [](const std::string& v) { return !v.empty() && io::is_utf8(v); };
  if (given.empty() || !std::ranges::all_of(given, is_text)) fail(field, "text or a list of texts", value);
  return given;
}

double TableFields::number(const std::string& field, const Scalar& value) const {
  const double given = number_of(value);
  if (!(given >= 0)) fail(field, "a number of at least 0", value);
  return given;
}

double TableFields::positive(const std::string& field, const Scalar& value) const {
  const double given = number_of(value);
  if (!(given > 0)) fail(field, "a number above 0", value);
  return given;
}

Size TableFields::count(const std::string& field, const Scalar& value) const {
  const auto* given = std::get_if<std::int64_t>(&value);
  if (given == nullptr || *given < 1 || *given > std::numeric_limits<std::int32_t>::max()) {
    fail(field, "an integer of at least 1", value);
  }
  return *given;
}

void TableFields::fail(const std::string& field, const std::string& expected, const Scalar& value) const {
  throw UsageError("config", name_ + "." + field, expected, text_of(value));
}

void TableFields::refuse(const std::string& field, const std::vector<std::string>& known) const {
  throw UsageError("config", fmt::format("unknown field {}.{}", name_, field),
                   nearest_hint(field, known, "docs/reference/configuration.md"));
}

void TableFields::fail_missing(const std::string& field, const std::string& expected) const {
  throw UsageError("config", name_ + "." + field, expected, "none");
}

}  // namespace lt::config
