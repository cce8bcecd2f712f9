// Checks a table of models, and makes the model that a configuration describes.
#include "train/model_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "libtrain/error.h"
#include "libtrain/nn/models.h"
#include "libtrain/train/run_options.h"
#include "train/config_schema.h"
#include "train/engine_checkpoint.h"

namespace lt {
namespace {

const ModelRow* find_row(const ModelTable& models, const std::string& name) {
  const auto found = std::ranges::find(models.rows, name, &ModelRow::name);
  return found == models.rows.end() ? nullptr : &*found;
}

[[noreturn]] void refuse(const ModelRow& row, const std::string& what) {
  throw UsageError("models", fmt::format("row \"{}\": {}", row.name, what));
}

bool is_name(const std::string& text) {
  const auto may_stand = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && std::ranges::all_of(text, may_stand);
}

}  // namespace

void require_valid(const ModelTable& models) {
  // Without rows, the names that are taken: families and keys that every program has.
  ModelTable without = models;
  without.rows.clear();
  std::set<std::string> families = config::built_in_families(models), keys = {"family"};
  for (const config::Key& key : config::schema(without)) {
    if (key.section == "model") keys.emplace(key.name);
  }
  std::map<std::string, ModelField> fields;
  for (const ModelRow& row : models.rows) {
    if (row.name.empty()) refuse(row, "name: expected a text, got none");
    if (!families.insert(row.name).second) refuse(row, "name: expected one that no other family has");
    if (!row.make) refuse(row, "make: expected a function, got none");
    std::set<std::string> own;
    for (const ModelField& field : row.fields) {
      if (!is_name(field.name)) {
        refuse(row, fmt::format("field \"{}\": expected a name of lower-case letters, digits and _", field.name));
      }
      if (keys.contains(field.name))
        refuse(row, fmt::format("field {}: model.{} is a key already", field.name, field.name));
      const auto [known, is_new] = fields.emplace(field.name, field);
      if (!own.insert(field.name).second || (!is_new && !(known->second == field))) {
        refuse(row, fmt::format("field {}: differs from another of this name", field.name));
      }
    }
  }
}

const ModelRow* own_row(const Config& config) { return find_row(*config.models, config.model.family); }

bool is_transformer(const Config& config) { return config.models->transformers && own_row(config) == nullptr; }

std::unique_ptr<nn::Model> make_model(const Config& resolved) {
  const ModelRow* const row = own_row(resolved);
  if (row == nullptr) return nn::make_transformer(model_spec(resolved));
  return row->make(resolved.model.own);
}

std::unique_ptr<BatchSource> own_batches(const Config& resolved, const BatchShape& shape) {
  const ModelRow* const row = own_row(resolved);
  return row != nullptr && row->batches ? row->batches(resolved.model.own, shape) : nullptr;
}

std::string model_name(const Config& resolved) {
  return is_transformer(resolved) ? nn::model_name(model_spec(resolved)) : resolved.model.family;
}

std::string model_description(const nn::Model& model, const Config& resolved) {
  const ModelRow* const row = own_row(resolved);
  if (row == nullptr) return model_description(model, resolved.train.seq);
  nlohmann::ordered_json json = {{"family", row->name}};
  for (const ModelField& field : row->fields) {
    std::visit([&](const auto& value) { json[field.name] = value; }, resolved.model.own.at(field.name));
  }
  return json.dump();
}

}  // namespace lt
