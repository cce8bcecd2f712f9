// Maps the fields that components reject to the keys that set them.
#include "config/origin.h"

#include <algorithm>
#include <string>
#include <vector>

#include "config/config_schema.h"

namespace lt::config {
namespace {

// The section whose keys have the names of a component's fields.
constexpr struct {
  std::string_view component, section;
} kSections[] = {
    {"engine", "parallel"}, {"engine", "train"}, {"model", "model"}, {"batches", "batches"}, {"optim", "optim"}};

// The fields whose key has another name.
constexpr struct {
  std::string_view component, field, key;
} kRenamed[] = {
    {"engine", "fp8", "train.dtype"},
    {"optim", "frozen", "model.freeze"},
    {"optim", "masters", "optim.master"},
};

// Empty if no key sets the field.
std::string key_of(const UsageError& error, const ModelTable& models) {
  if (error.component() == "config") return error.field();
  for (const auto& [component, field, key] : kRenamed) {
    if (component == error.component() && field == error.field()) return std::string(key);
  }
  const std::vector<Key> keys = schema(models);
  for (const auto& row : kSections) {
    const auto is_meant = [&](const Key& key) { return key.section == row.section && key.name == error.field(); };
    if (row.component != error.component()) continue;
    if (const auto found = std::ranges::find_if(keys, is_meant); found != keys.end()) return found->full_name();
  }
  return {};
}

std::string hint_of(const UsageError& error, const ModelTable& models) {
  if (!error.hint().empty() || error.component() != "model" || error.field() == "preset" || !models.transformers) {
    return error.hint();
  }
  return "`ltrain plan --model.preset=NAME` prints the shape of a preset";
}

}  // namespace

void name_keys(const Config& config, const std::function<void()>& body) {
  try {
    body();
  } catch (const UsageError& error) {
    const std::string key = key_of(error, *config.models);
    if (key.empty() || !error.origin().empty()) throw;
    UsageError named("config", key, error.expected(), error.actual(), hint_of(error, *config.models));
    if (error.shared()) named.set_shared(error.rank());
    const auto origin = config.origins.find(key);
    throw origin == config.origins.end() ? named : named.from(origin->second);
  }
}

}  // namespace lt::config
