// Checks model tables, and makes the model that a configuration describes.
#include "config/model_table.h"
#include "checkpoints/format/model_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "config/config_schema.h"
#include "config/origin.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "libtrain/nn/models.h"
#include "optim/groups.h"

namespace lt::config {
namespace {

using Fields = std::vector<ModelField> ModelRow::*;  // those of [model] or of [batches]

[[noreturn]] void refuse(const ModelRow& row, const std::string& what) {
  throw UsageError("models", fmt::format("row \"{}\": {}", row.name, what));
}

bool is_name(const std::string& text) {
  const auto may_stand = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && std::ranges::all_of(text, may_stand);
}

// A configuration that is written must read back.
void require_valid_fallback(const ModelRow& row, const ModelField& field, Fields fields) {
  const bool is_text = std::holds_alternative<std::string>(field.fallback);
  if (!is_text && !field.choices.empty()) refuse(row, fmt::format("field {}: choices are for texts", field.name));
  ModelTable alone{.rows = {{.name = row.name, .fields = {}, .make = row.make}}};
  alone.rows.front().*fields = {field};
  Config config = default_config(std::make_shared<const ModelTable>(alone));
  try {
    for (const Key& key : schema(*config.models)) {
      if (key.name == field.name) assign(config, key, value_of(field.fallback));
    }
  } catch (const UsageError& error) {
    refuse(row, error.from("its default").what());
  }
}

using KnownFields = std::map<std::string, ModelField>;  // of the rows before, by name

// `keys`: names that the section has without the rows.
void require_valid_fields(const ModelRow& row, Fields fields, std::string_view section,
                          const std::set<std::string>& keys, KnownFields& known) {
  std::set<std::string> own;
  for (const ModelField& field : row.*fields) {
    if (!is_name(field.name)) {
      refuse(row, fmt::format("field \"{}\": expected a name of lower-case letters, digits and _", field.name));
    }
    if (keys.contains(field.name)) {
      refuse(row, fmt::format("field {}: {}.{} is a key already", field.name, section, field.name));
    }
    if (!own.insert(field.name).second) refuse(row, fmt::format("field {}: given twice", field.name));
    const auto [earlier, is_new] = known.emplace(field.name, field);
    if (!is_new && !(earlier->second == field)) {
      refuse(row, fmt::format("field {}: differs from that of another row", field.name));
    }
    require_valid_fallback(row, field, fields);
  }
}

// Calls a function of the program, which makes `what`. What is no error of the library is one of the configuration.
template <class Function>
auto call(const ModelRow& row, const char* what, Function&& function) {
  try {
    auto made = function();
    if (made == nullptr)
      throw UsageError("config", fmt::format("model.family={}: expected {}, got none", row.name, what));
    return made;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw UsageError("config", fmt::format("model.family={}: {}", row.name, error.what()));
  }
}

std::unique_ptr<nn::Model> make_of_row(const ModelRow& row, const Config& config) {
  return call(row, "a model of its function make", [&] { return row.make(config.model.own); });
}

}  // namespace

void require_valid(const ModelTable& models) {
  if (models.rows.empty() && !models.transformers) {
    throw UsageError("models", "expected a row or transformers, found none");
  }
  std::set<std::string> families = built_in_families(), keys = {"family"};
  const ModelTable without{.transformers = models.transformers};
  for (const Key& key : schema(without)) {
    if (key.section == "model") keys.emplace(key.name);
  }
  KnownFields fields, batch_fields;
  for (const ModelRow& row : models.rows) {
    if (!is_name(row.name)) refuse(row, "name: expected lower-case letters, digits and _");
    if (!families.insert(row.name).second) refuse(row, "name: expected one that no other family has");
    if (!row.make) refuse(row, "make: expected a function, got none");
    require_valid_fields(row, &ModelRow::fields, "model", keys, fields);
    if (!row.batches && !row.batch_fields.empty())
      refuse(row, "batch_fields: expected none without a function batches");
    require_valid_fields(row, &ModelRow::batch_fields, "batches", {}, batch_fields);
  }
}

void require_keys_of_model(const Config& config) {
  for (const Key& key : schema(*config.models)) {
    if (!config.origins.contains(key.full_name()) || is_of_model(key, config)) continue;
    const ModelRow* const row = own_row(config);
    throw UsageError("config", key.full_name(),
                     "none for " + (row != nullptr ? "model.family=" + row->name : "a transformer"),
                     toml_text(config, key));
  }
}

Size default_seq(const Config& config) {
  if (is_transformer(config)) return config.model.max_seq;
  const ModelRow* const row = own_row(config);
  return row == nullptr ? 0 : make_of_row(*row, config)->default_seq();
}

bool has_own_batches(const Config& config) {
  const ModelRow* const row = own_row(config);
  return row != nullptr && row->batches;
}

std::unique_ptr<BatchSource> own_batches(const Resolved& resolved, const BatchShape& shape) {
  if (!has_own_batches(resolved.config)) return nullptr;
  const ModelRow& row = *own_row(resolved.config);
  const Config& config = resolved.config;
  return call(row, "a source of its function batches",
              [&] { return row.batches(config.model.own, config.batches, shape); });
}

std::string model_name(const Resolved& resolved) {
  return resolved.transformer ? nn::model_name(*resolved.transformer) : resolved.config.model.family;
}

nn::ModelFacts facts_of(const nn::Model& model, const Resolved& resolved) {
  nn::ModelFacts facts = model.facts(resolved.step.seq);
  if (const auto* const transformer = dynamic_cast<const nn::Transformer*>(&model)) {
    facts.flops_per_token = transformer->flops_per_token(
        resolved.step.seq, [&](const std::string& name) { return !optim::is_frozen(resolved.optimizers, name); });
  }
  const ModelRow* const row = own_row(resolved.config);
  if (facts.name.empty()) facts.name = row != nullptr ? row->name : "model";
  if (facts.details.empty()) facts.details = facts.name;
  return facts;
}

std::string model_description(const nn::Model& model, Size seq) {
  const auto* const transformer = dynamic_cast<const nn::Transformer*>(&model);
  return transformer == nullptr ? "{}" : checkpoint::model_to_json(transformer->spec(), seq);
}

std::string model_description(const nn::Model& model, const Resolved& resolved) {
  const ModelRow* const row = own_row(resolved.config);
  if (row == nullptr) return model_description(model, resolved.step.seq);
  nlohmann::ordered_json json = {{"family", row->name}};
  for (const ModelField& field : row->fields) {
    std::visit([&](const auto& value) { json[field.name] = value; }, resolved.config.model.own.at(field.name));
  }
  return json.dump();
}

}  // namespace lt::config

namespace lt {

std::unique_ptr<nn::Model> make_model(const Resolved& resolved) {
  const ModelRow* const row = own_row(resolved.config);
  if (row == nullptr) return nn::make_transformer(*resolved.transformer);
  return config::make_of_row(*row, resolved.config);
}

}  // namespace lt
