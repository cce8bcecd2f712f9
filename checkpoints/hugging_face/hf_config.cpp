// Reads and writes config.json by the families' tables (model_family.h).
#include "checkpoints/hugging_face/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "checkpoints/format/model_json.h"
#include "checkpoints/hugging_face/hf_harmless_keys.h"
#include "io/json_problem.h"
#include "libtrain/error.h"
#include "nn/model_family.h"
#include "nn/spec_fields.h"

namespace lt::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

// Entries of every family's config.json. Special tokens are null, because those that transformers assumes by default
// lie outside a small vocabulary.
constexpr nn::HfEntry kCommon[] = {
    {"vocab_size", "vocab", nullptr},        {"tie_word_embeddings", "tie_embeddings", nullptr},
    {"bos_token_id", nullptr, "null"},       {"eos_token_id", nullptr, "null"},
    {"torch_dtype", nullptr, "\"float32\""},
};

// Keys that must have this value where they are there, beside the families' own. transformers takes null for a missing
// number, and for false.
constexpr std::pair<const char*, const char*> kRequired[] = {
    {"scale_attn_weights", "true"}, {"is_causal", "true"}, {"pretraining_tp", "1"}, {"partial_rotary_factor", "1.0"}};

// Look-up in ordered JSON is linear, so a longer text could keep a reader busy for long.
constexpr std::size_t kMostBytes = std::size_t{128} << 10;

std::array<std::span<const nn::HfEntry>, 3> entries_of(const nn::HfFormat& format) {
  return {format.config, format.more_config, std::span<const nn::HfEntry>(kCommon)};
}

// The entry's constant, or the model's field. An integer field of 0 becomes null, such as Mistral's sliding_window
// without a window.
Json value_of(const Json& model, const nn::HfEntry& entry) {
  if (entry.field == nullptr) return Json::parse(entry.constant);
  const Json value = model.at(entry.field);
  return value.is_number_integer() && value == 0 ? Json() : value;
}

void put(Json& config, std::string_view key, Json value) {
  const std::size_t dot = key.find('.');
  Json& at = config[std::string(key.substr(0, dot))];
  if (dot == std::string_view::npos) {
    at = std::move(value);
  } else {
    put(at, key.substr(dot + 1), std::move(value));
  }
}

// transformers 4 reads "rope_scaling", transformers 5 "rope_parameters".
void put_rope_scaling(Json& config, const RopeScaling& scaling) {
  if (scaling.kind == RopeScaling::Kind::none) return;
  Json fields;
  fields["rope_type"] = scaling.kind == RopeScaling::Kind::linear ? "linear" : "llama3";
  fields["factor"] = scaling.factor;
  if (scaling.kind == RopeScaling::Kind::llama3) {
    fields["low_freq_factor"] = scaling.low, fields["high_freq_factor"] = scaling.high;
    fields["original_max_position_embeddings"] = static_cast<Size>(scaling.original);
  }
  config["rope_scaling"] = fields;
  for (const auto& [key, value] : fields.items()) config["rope_parameters"][key] = value;
}

[[noreturn]] void refuse(const std::string& key, const std::string& expected, const Json& found) {
  const std::string text = found.is_discarded() ? "none" : found.dump();
  throw DataError("checkpoint",
                  fmt::format("config.json: {}: expected {}, found {}", key, expected,
                              text.size() <= 80 ? text : text.substr(0, 80) + "..."),
                  "docs/how-to/hugging-face.md lists what is supported");
}

const Json* find(const Json& config, std::string_view key) {
  const std::size_t dot = key.find('.');
  const auto found = config.is_object() ? config.find(std::string(key.substr(0, dot))) : config.end();
  if (!config.is_object() || found == config.end()) return nullptr;
  return dot == std::string_view::npos ? &*found : find(*found, key.substr(dot + 1));
}

const nn::ModelFamily& family_of(const Json& config) {
  const Json* const type = find(config, "model_type");
  std::string names;
  for (const nn::ModelFamily* family : nn::families()) {
    if (type != nullptr && *type == family->hf.model_type) return *family;
    names += (names.empty() ? "" : ", ") + std::string(family->hf.model_type);
  }
  refuse("model_type", "one of " + names, type == nullptr ? Json() : *type);
}

// Reads one value into a field of the description. Null leaves the field to its default.
void read_field(nn::TransformerSpec& spec, const nn::SpecField& field, const std::string& key, const Json& value) {
  if (value.is_null()) return;
  const auto integer = [&](Size& to) {
    const double low = std::max(1.0, field.low);  // null, not 0, stands for no window
    if (!value.is_number_integer() || !(value.get<double>() >= low && value.get<double>() <= field.high)) {
      refuse(key, fmt::format("an integer of {} to {}", low, field.high), value);
    }
    value.get_to(to);
  };
  const auto real = [&](auto& to) {  // 0 would stand for the family's default
    if (!value.is_number() || !(value.get<double>() > field.low && value.get<double>() <= field.high)) {
      refuse(key, fmt::format("a number above {} and at most {}", field.low, field.high), value);
    }
    value.get_to(to);
    if (!(static_cast<double>(to) > field.low)) {
      refuse(key, fmt::format("a number that f32 does not round to {}", field.low), value);
    }
  };
  if (const auto* const member = std::get_if<Size nn::TransformerSpec::*>(&field.member)) {
    integer(spec.**member);
  } else if (const auto* const single = std::get_if<float nn::TransformerSpec::*>(&field.member)) {
    real(spec.**single);
  } else if (const auto* const wide = std::get_if<double nn::TransformerSpec::*>(&field.member)) {
    real(spec.**wide);
  } else if (const auto* const flag = std::get_if<std::optional<bool> nn::TransformerSpec::*>(&field.member)) {
    if (!value.is_boolean()) refuse(key, "true or false", value);
    spec.** flag = value.get<bool>();
  }
}

const nn::SpecField& field_of(std::string_view name) {
  return *std::ranges::find(nn::spec_fields(), name, &nn::SpecField::name);
}

RopeScaling read_rope_scaling(const Json& config, const char* key) {
  const Json* const fields = find(config, key);
  if (fields == nullptr || fields->is_null()) return {};
  if (!fields->is_object()) refuse(key, "an object", *fields);
  const Json *const newer = find(*fields, "rope_type"), *const older = find(*fields, "type");
  const Json* const type = newer != nullptr ? newer : older;
  if (older != nullptr && !older->is_null() && *older != *type)
    refuse(fmt::format("{}.type", key), "what rope_type says", *older);
  const auto require = [&](bool holds, const char* name, const std::string& expected) {
    const Json* const value = find(*fields, name);
    if (!holds) refuse(fmt::format("{}.{}", key, name), expected, value == nullptr ? Json() : *value);
  };
  const auto number = [&](const char* name) {
    const Json* const value = find(*fields, name);
    require(value != nullptr && value->is_number(), name, "a number");
    return value->get<double>();
  };
  std::set<std::string> known{"rope_type", "type", "rope_theta", "factor"};
  RopeScaling scaling;
  if (type != nullptr && *type == "linear") {
    scaling = {RopeScaling::Kind::linear, number("factor")};
  } else if (type != nullptr && *type == "llama3") {
    scaling = {RopeScaling::Kind::llama3, number("factor"), number("low_freq_factor"), number("high_freq_factor"),
               number("original_max_position_embeddings")};
    known.insert({"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
    require(scaling.low < scaling.high, "low_freq_factor", fmt::format("less than high_freq_factor, {}", scaling.high));
    require(scaling.original == std::trunc(scaling.original), "original_max_position_embeddings", "a whole number");
  } else if (type != nullptr && *type != "default") {
    refuse(fmt::format("{}.rope_type", key), "default, linear or llama3", *type);
  }
  if (scaling.kind != RopeScaling::Kind::none) require(scaling.factor >= 1, "factor", "a number of at least 1");
  for (const auto& [name, value] : fields->items()) {
    if (!known.contains(name) && !value.is_null()) refuse(fmt::format("{}.{}", key, name), "no such key", value);
  }
  return scaling;
}

bool says_nothing(const Json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

using Keys = std::set<std::string, std::less<>>;

// Reads the entries of the family's table, and adds their keys to `known`.
void read_entries(const Json& config, const nn::HfFormat& format, nn::TransformerSpec& spec, Keys& known) {
  for (const auto& entries : entries_of(format)) {
    for (const nn::HfEntry& entry : entries) {
      const std::string key = entry.key;
      const Json* const value = find(config, key);
      known.insert(key.substr(0, key.find('.')));
      if (is_harmless(key) || key.starts_with("rope_parameters.")) continue;  // read below
      if (entry.field != nullptr && std::string_view(entry.field) == "dropout") continue;
      if (entry.field != nullptr) {
        const Json absent = entry.absent == nullptr ? Json() : Json::parse(entry.absent);
        read_field(spec, field_of(entry.field), key, value == nullptr ? absent : *value);
      } else if (value != nullptr && !value->is_null() && *value != Json::parse(entry.constant)) {
        const bool same_function = key == "activation_function" && *value == "gelu_pytorch_tanh";
        const bool unused = key == "sliding_window";  // use_sliding_window must be false
        if (!same_function && !unused) refuse(key, entry.constant, *value);
      }
    }
  }
}

void read_rope(const Json& config, nn::TransformerSpec& spec, Keys& known) {
  // transformers 4 reads rope_scaling, and transformers 5 prefers it to rope_parameters.
  const RopeScaling older = read_rope_scaling(config, "rope_scaling"),
                    newer = read_rope_scaling(config, "rope_parameters");
  const Json *const scaling = find(config, "rope_scaling"), *const parameters = find(config, "rope_parameters");
  const bool has_older = scaling != nullptr && !says_nothing(*scaling);
  if (has_older && parameters != nullptr && !says_nothing(*parameters) && !(older == newer)) {
    refuse("rope_parameters", "what rope_scaling says", *parameters);
  }
  spec.rope_scaling = nn::to_string(has_older ? older : newer);
  const Json* said = nullptr;
  std::string where;
  for (const char* const key : {"rope_theta", "rope_scaling.rope_theta", "rope_parameters.rope_theta"}) {
    const Json* const value = find(config, key);
    if (value == nullptr || value->is_null()) continue;
    const double assumed = spec.rope_base;
    read_field(spec, field_of("rope_base"), key, *value);
    if (said != nullptr && *value != *said) refuse(key, "what " + where + " says", *value);
    const bool is_unused = has_older && said == nullptr && value == find(config, "rope_parameters.rope_theta");
    if (is_unused && spec.rope_base != assumed) {
      refuse(key, fmt::format("{}, as transformers assumes where rope_scaling has none", assumed), *value);
    }
    said = value, where = key;
  }
  known.insert({"rope_scaling", "rope_parameters"});
}

// Sizes that neither the file nor the family's rules give.
void require_sizes(const nn::HfFormat& format, const nn::TransformerSpec& complete) {
  for (const auto& entries : entries_of(format)) {
    for (const nn::HfEntry& entry : entries) {
      const std::string_view name = entry.field == nullptr ? "" : entry.field;
      if (name.empty() || name == "head_dim") continue;  // validate() says why there is none
      const nn::SpecField& field = field_of(name);
      const auto* const member = std::get_if<Size nn::TransformerSpec::*>(&field.member);
      if (member == nullptr || field.low < 1 || complete.**member != 0) continue;
      refuse(entry.key, fmt::format("an integer of {} to {}", field.low, field.high), Json(Json::value_t::discarded));
    }
  }
}

// transformers can give each layer its own kind of attention; ours have one for all.
void require_equal_layers(const Json& config, const nn::TransformerSpec& spec, Keys& known) {
  const Json* const types = find(config, "layer_types");
  if (types == nullptr || !types->is_array()) return;
  const auto count = static_cast<Size>(types->size());
  if (count != 0 && spec.layers != 0 && count != spec.layers) {
    refuse("layer_types", fmt::format("{} entries, one for each layer", spec.layers), count);
  }
  const char* const expected = spec.window > 0 ? "sliding_attention" : "full_attention";
  for (const Json& type : *types) {
    if (type != expected) refuse("layer_types", fmt::format("\"{}\" for every layer", expected), type);
  }
  known.insert("layer_types");
}

}  // namespace

void require_expressible(const nn::TransformerSpec& model) {
  const nn::ModelFamily& family = nn::find_family(model.family);
  std::set<std::string_view> known{"family", "dropout"};
  if (family.rotary) known.insert("rope_scaling");
  for (const auto& entries : entries_of(family.hf)) {
    for (const nn::HfEntry& entry : entries) known.insert(entry.field == nullptr ? "" : entry.field);
  }
  for (const nn::SpecField& field : nn::spec_fields()) {
    const bool unused = field.name == "rope_base" && !family.rotary;
    if (known.contains(field.name) || unused || nn::is_default(model, field)) continue;
    throw DataError(
        "checkpoint",
        fmt::format("manifest.json: model.{}: expected its default in Hugging Face's format of {}, found {}",
                    field.name, model.family, all_fields(model)[std::string(field.name)].dump()));
  }
}

std::string hf_config_text(const nn::TransformerSpec& model, DType dtype) {
  require_expressible(model);
  const nn::HfFormat& format = nn::find_family(model.family).hf;
  const Json fields = all_fields(model);
  Json config = {{"architectures", {format.architecture}}, {"model_type", format.model_type}};
  for (const auto& entries : entries_of(format)) {
    for (const nn::HfEntry& entry : entries) put(config, entry.key, value_of(fields, entry));
  }
  config["torch_dtype"] = dtype == DType::bf16 ? "bfloat16" : "float32";
  put_rope_scaling(config, nn::parse_rope_scaling(model.rope_scaling));
  return config.dump(2) + "\n";
}

nn::TransformerSpec parse_hf_config(const std::string& text) {
  if (text.size() > kMostBytes) {
    throw DataError("checkpoint",
                    fmt::format("config.json: expected at most {} bytes, found {}", kMostBytes, text.size()));
  }
  const Json config = io::json_depth(text) > io::kMaxJsonDepth ? Json() : Json::parse(text, nullptr, false);
  if (!config.is_object()) {
    throw DataError("checkpoint", "config.json: expected a JSON object, found " + io::json_problem(text));
  }
  const nn::ModelFamily& family = family_of(config);
  const Json* const architectures = find(config, "architectures");
  if (architectures != nullptr && !says_nothing(*architectures) &&
      (*architectures != Json::array({family.hf.architecture}))) {
    refuse("architectures", Json::array({family.hf.architecture}).dump(), *architectures);
  }
  Keys known;
  nn::TransformerSpec spec;
  spec.family = family.name;
  spec.norm_eps = family.rotary ? 1e-6f : 1e-5f;  // what transformers assumes
  if (family.rotary) spec.rope_base = 10000;
  read_entries(config, family.hf, spec, known);
  for (const auto& [key, expected] : kRequired) {
    const Json* const value = find(config, key);
    const bool is_missing = value == nullptr || (value->is_null() && std::string_view(expected) != "true");
    if (!is_missing && *value != Json::parse(expected)) refuse(key, expected, *value);
    known.insert(key);
  }
  if (family.rotary) read_rope(config, spec, known);
  require_equal_layers(config, spec, known);
  for (const auto& [key, value] : config.items()) {
    if (!known.contains(key) && !is_harmless(key) && !says_nothing(value))
      refuse(key, "no such key, since it may change the model", value);
  }
  try {
    spec = nn::with_defaults(spec);
    require_sizes(family.hf, spec);
    nn::validate(spec);
  } catch (const UsageError& error) {
    throw DataError("checkpoint", std::string("config.json: ") + error.what());
  }
  return spec;
}

}  // namespace lt::checkpoint
