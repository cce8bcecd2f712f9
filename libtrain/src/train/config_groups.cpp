// Reads optimizer groups and checks every field.
#include "train/config_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "io/json_depth.h"
#include "io/utf8.h"
#include "libtrain/error.h"
#include "libtrain/kernels/step_numbers.h"
#include "train/nearest.h"
#include "train/optimizer_choices.h"

namespace lt::config {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExample = R"([{"match": "blocks.*.norm*", "lr_scale": 0.5, "weight_decay": 0}])";

Scalar scalar_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() >> 63 != 0) return static_cast<double>(json);
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
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
        } else {
          return fmt::format("{}", v);
        }
      },
      value);
}

// Checks and sets the fields of one group.
class Fields {
 public:
  Fields(std::string name, std::string source) : name_(std::move(name)), source_(std::move(source)) {}

  void set(OptimGroupConfig& group, const std::string& field, const Scalar& value) const {
    if (field == "match") {
      group.match = text(field, value);
      if (group.match.empty()) fail(field, "a pattern of parameters' names", value);
    } else if (field == "lr_scale") {
      group.lr_scale = number(field, value);
    } else if (field == "weight_decay") {
      group.weight_decay = number(field, value);
    } else if (field == "optimizer") {
      group.optimizer = text(field, value);
      const std::vector<std::string> names = optimizer_names();
      if (std::ranges::find(names, group.optimizer) == names.end()) {
        fail(field, fmt::format("one of {}", fmt::join(names, ", ")), value);
      }
    } else {
      const std::vector<std::string> names{"match", "lr_scale", "weight_decay", "optimizer"};
      throw UsageError("config", fmt::format("unknown field {}.{} ({})", name_, field, source_),
                       nearest_hint(field, names, "docs/configuration.md"));
    }
  }
  [[noreturn]] void fail(const std::string& field, const std::string& expected, const Scalar& value) const {
    throw UsageError("config",
                     fmt::format("{}.{}: expected {}, got {} ({})", name_, field, expected, text_of(value), source_));
  }

 private:
  std::string text(const std::string& field, const Scalar& value) const {
    const auto* given = std::get_if<std::string>(&value);
    if (given == nullptr || !is_utf8(*given)) fail(field, "text", value);
    return *given;
  }
  double number(const std::string& field, const Scalar& value) const {
    const auto* integer = std::get_if<std::int64_t>(&value);
    const auto* real = std::get_if<double>(&value);
    const double given = integer != nullptr ? static_cast<double>(*integer) : real != nullptr ? *real : -1;
    if (!(given >= 0) || !std::isfinite(given)) fail(field, "a number of at least 0", value);
    return given;
  }

  std::string name_, source_;
};

}  // namespace

std::vector<OptimGroupConfig> groups_from(const Value& value, const std::string& key, const std::string& source) {
  const auto tables = tables_of(value);
  if (!tables) {
    const auto* text = std::get_if<Text>(&value);
    throw UsageError("config",
                     fmt::format("{}: expected tables, got {} ({})", key,
                                 text != nullptr ? "'" + text->text + "'" : "another value", source),
                     text != nullptr ? fmt::format("as JSON: '{}'", kExample) : "[[optim.groups]] begins each");
  }
  if (static_cast<int>(tables->size()) >= kMaxOptimizerGroups) {  // one more group takes all other parameters
    throw UsageError("config", fmt::format("{}: expected at most {}, got {} ({})", key, kMaxOptimizerGroups - 1,
                                           tables->size(), source));
  }
  std::vector<OptimGroupConfig> groups;
  for (const Table& table : *tables) {
    const std::string name = fmt::format("{}[{}]", key, groups.size());
    const Fields fields(name, source);
    OptimGroupConfig& group = groups.emplace_back();
    for (const auto& [field, scalar] : table) fields.set(group, field, scalar);
    if (group.match.empty()) {
      throw UsageError("config",
                       fmt::format("{}.match: expected a pattern of parameters' names, got none ({})", name, source));
    }
  }
  return groups;
}

}  // namespace lt::config
