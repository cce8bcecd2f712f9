// Reads optimizer groups, and checks every field.
#include "config/config_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/config_tables.h"
#include "config/optimizer_choices.h"
#include "libtrain/error.h"
#include "libtrain/kernels/step_numbers.h"

namespace lt::config {
namespace {

constexpr const char* kExample = R"([{"match": "embedding*", "lr_scale": 0.5, "weight_decay": 0}])";
constexpr const char* kMatch = "a pattern of parameters' names";

void set(OptimGroupConfig& group, const TableFields& fields, const std::string& field, const Scalar& value) {
  if (field == "match") {
    group.match = fields.text(field, value);
    if (group.match.empty()) fields.fail(field, kMatch, value);
  } else if (field == "lr_scale") {
    group.lr_scale = fields.number(field, value);
  } else if (field == "weight_decay") {
    group.weight_decay = fields.number(field, value);
  } else if (field == "optimizer") {
    group.optimizer = fields.text(field, value);
    const std::vector<std::string> names = optimizer_names();
    if (std::ranges::find(names, group.optimizer) == names.end()) {
      fields.fail(field, fmt::format("one of {}", fmt::join(names, ", ")), value);
    }
  } else {
    fields.refuse(field, {"match", "lr_scale", "weight_decay", "optimizer"});
  }
}

}  // namespace

std::vector<OptimGroupConfig> groups_from(const Value& value, const std::string& key) {
  const std::vector<Table> tables = tables_from(value, key, kExample);
  if (static_cast<int>(tables.size()) >= kMaxOptimizerGroups) {  // one more group takes all other parameters
    throw UsageError("config", key, fmt::format("at most {}", kMaxOptimizerGroups - 1), std::to_string(tables.size()));
  }
  std::vector<OptimGroupConfig> groups;
  for (const Table& table : tables) {
    const TableFields fields(key, groups.size());
    OptimGroupConfig& group = groups.emplace_back();
    for (const auto& [field, scalar] : table) set(group, fields, field, scalar);
    if (group.match.empty()) fields.fail_missing("match", kMatch);
  }
  return groups;
}

}  // namespace lt::config
