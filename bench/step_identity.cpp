// Describes a step by the keys of its configuration.
#include "bench/step_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <variant>

#include "config/model_table.h"
#include "config/names.h"
#include "libtrain/config/resolved.h"
#include "nn/spec_fields.h"

namespace lt::bench {
namespace {

// The fields of a transformer that the shape names, in the order of nn::spec_fields(). A complete configuration leaves
// head_dim open where it follows from width and heads.
constexpr std::string_view kShapeFields[] = {"layers", "heads", "kv_heads", "head_dim", "width", "ffn", "vocab"};

bool is_of_shape(const nn::SpecField& field) {
  return std::ranges::find(kShapeFields, field.name) != std::end(kShapeFields);
}

std::string step_shape(const Config& config) {
  const ModelConfig& model = config.model;
  const std::string batch =
      fmt::format(" micro_batch={} accum={} seq={}", config.train.micro_batch, config.train.accum, config.train.seq);
  if (const ModelRow* const row = own_row(config)) {
    std::string shape = row->name;
    for (const ModelField& field : row->fields) {
      std::visit([&](const auto& value) { shape += fmt::format(" {}={}", field.name, value); },
                 model.own.at(field.name));
    }
    return shape + batch;
  }
  std::string shape = model.family;
  for (const nn::SpecField& field : nn::spec_fields()) {
    if (!is_of_shape(field) || !nn::is_set(model, field)) continue;
    shape += fmt::format(" {}={}", field.name, model.*std::get<Size nn::TransformerSpec::*>(field.member));
  }
  return shape + batch;
}

// Keys that another field of a row has, or that change numbers but no work.
constexpr std::string_view kOtherKeys[] = {
    "model.from",           "parallel.strategy", "parallel.recompute", "train.steps",        "train.max_minutes",
    "train.skip_nonfinite", "train.eval_every",  "train.eval_tokens",  "train.sample_every", "train.seed",
    "train.micro_batch",    "train.accum",       "train.global_batch", "optim.lr",           "optim.min_lr",
    "optim.warmup",         "optim.schedule",    "optim.beta1",        "optim.beta2",        "optim.eps",
    "optim.weight_decay",   "optim.momentum"};

bool counts(std::string_view key) {
  const std::string_view section = key.substr(0, key.find('.'));
  return (section == "model" || section == "parallel" || section == "train" || section == "optim") &&
         std::ranges::find(kOtherKeys, key) == std::end(kOtherKeys);
}

// "optim.name=muon train.tf32=true".
std::string other_options(const Config& config) {
  Config plain = default_config(config.models);  // a step of this shape with all other keys at their defaults
  ModelConfig& model = plain.model;
  model.own = config.model.own;
  model.preset = config.model.preset, model.family = config.model.family, model.max_seq = config.model.max_seq;
  for (const nn::SpecField& field : nn::spec_fields()) {
    if (is_of_shape(field)) nn::copy_field(model, config.model, field);
  }
  plain.train.seq = config.train.seq, plain.train.dtype = config.train.dtype;
  const auto defaults = flatten(resolve(plain, 1).config);
  std::string text;
  for (const auto& [key, value] : flatten(config)) {
    if (!counts(key) || defaults.at(key) == value) continue;
    const bool is_text = value.size() >= 2 && value.front() == '"' && value.back() == '"';
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, is_text ? value.substr(1, value.size() - 2) : value);
  }
  return text;
}

}  // namespace

Json step_identity(const Resolved& resolved, int ranks, const std::string& strategy) {
  Json identity = {{"name", config::model_name(resolved)},
                   {"shape", step_shape(resolved.config)},
                   {"dtype", config::name_of(resolved.precision)},
                   {"ranks", ranks},
                   {"strategy", strategy},
                   {"recompute", config::name_of(resolved.parallel.recompute)}};
  if (const std::string options = other_options(resolved.config); !options.empty()) identity["options"] = options;
  return identity;
}

}  // namespace lt::bench
