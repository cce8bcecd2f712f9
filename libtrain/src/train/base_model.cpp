// Compares a run with the model that it begins from.
#include "train/base_model.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "hf_folder.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/error.h"
#include "libtrain/nn/models.h"
#include "libtrain/train/run_options.h"
#include "model_json.h"
#include "nn/spec_fields.h"
#include "train/data_tokenizers.h"
#include "train/model_table.h"
#include "train/origin.h"

namespace lt {
namespace {

// Names and shapes; nullopt for a description that is not valid.
std::optional<std::vector<std::pair<std::string, std::string>>> parameters_of(nn::TransformerSpec spec) {
  spec.lora = {};
  try {
    nn::validate(spec);
  } catch (const UsageError&) {
    return std::nullopt;
  }
  std::vector<std::pair<std::string, std::string>> all;
  const auto model = nn::make_transformer(spec);
  for (const auto& [name, parameter] : model->all_parameters()) all.emplace_back(name, to_string(parameter->shape()));
  return all;
}

void require_parameters(const Config& resolved, const nn::TransformerSpec& base) {
  const nn::TransformerSpec spec = model_spec(resolved);
  const auto expected = parameters_of(base);
  if (parameters_of(spec) == expected) return;
  // The field alone that changes the parameters; one that a layer set comes before one that follows from others.
  const nn::SpecField* culprit = nullptr;
  for (const nn::SpecField& field : nn::spec_fields()) {
    nn::TransformerSpec changed = base;
    nn::copy_field(changed, spec, field);
    if (parameters_of(changed) == expected) continue;
    const bool is_set = resolved.origins.contains(fmt::format("model.{}", field.name));
    if (culprit == nullptr || is_set) culprit = &field;
    if (is_set) break;
  }
  if (culprit == nullptr) return;  // reading the weights names a parameter
  const std::string name(culprit->name);
  const auto value = [&](const nn::TransformerSpec& of) { return checkpoint::all_fields(of)[name].dump(); };
  throw UsageError("config",
                   fmt::format("model.{}: expected {}, as model.from {} has, got {}", name, value(base),
                               resolved.model.from, value(spec)),
                   "without keys of [model] that change a parameter, the model is that of model.from");
}

}  // namespace

std::optional<nn::TransformerSpec> model_at(const std::string& path) {
  if (checkpoint::is_hf_folder(path)) return checkpoint::read_hf_spec(path);
  try {
    const std::vector<checkpoint::Listing> candidates = checkpoint::candidates(path, checkpoint::kAnyRun);
    const checkpoint::Listing* const newest = checkpoint::newest_valid(candidates);
    if (newest == nullptr) return std::nullopt;
    return checkpoint::model_from_json(checkpoint::read_state(newest->path).model).spec;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

void require_base(const Config& resolved) {
  // Reading the weights of another model names a parameter that differs.
  if (const auto base = is_transformer(resolved) ? model_at(resolved.model.from) : std::nullopt)
    name_origin(resolved, [&] { require_parameters(resolved, *base); });
  if (const auto tokenizer = tokenizer_of_base(resolved))
    require_tokenizer(*tokenizer, tokenizers_of_data(resolved), TokenizerMatch::extended);
}

}  // namespace lt
