// Compares a run's model with model.from field by field.
#include "config/base_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <variant>
#include <vector>

#include "checkpoints/format/find.h"
#include "checkpoints/format/found_instead.h"
#include "checkpoints/format/model_json.h"
#include "checkpoints/hugging_face/hf_folder.h"
#include "config/config_schema.h"
#include "config/derive.h"
#include "config/model_table.h"
#include "config/origin.h"
#include "io/whole_file.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/error.h"
#include "libtrain/nn/models.h"
#include "nn/model_family.h"
#include "nn/spec_fields.h"

namespace lt::config {
namespace fs = std::filesystem;
namespace {

// A key that model.from leaves to the run: what is trained beside the weights, and what extends their context.
bool may_differ(const nn::SpecField& field, const nn::TransformerSpec& base) {
  if (field.name == "dropout" || field.name == "lora") return true;
  const bool extends_context = field.name == "max_seq" || field.name == "rope_base" || field.name == "rope_scaling";
  return extends_context && nn::find_family(base.family).rotary;
}

// The field that differs; one that a layer set comes before one that follows from others.
const nn::SpecField* difference_of(const nn::TransformerSpec& spec, const nn::TransformerSpec& base,
                                   const Config& config) {
  const nn::SpecField* found = nullptr;
  for (const nn::SpecField& field : nn::spec_fields()) {
    if (nn::is_equal(spec, base, field) || may_differ(field, base)) continue;
    const bool is_set = config.origins.contains(key_of_field(field));
    if (found == nullptr || is_set) found = &field;
    if (is_set) break;
  }
  return found;
}

std::string text_of_field(const nn::TransformerSpec& spec, const nn::SpecField& field) {
  if (const auto* const number = std::get_if<float nn::TransformerSpec::*>(&field.member))
    return fmt::format("{}", spec.**number);  // not the digits of its double
  return checkpoint::all_fields(spec)[std::string(field.name)].dump();
}

}  // namespace

bool begin_from_one_path(const Config& a, const Config& b) {
  if (a.model.from.empty() || b.model.from.empty()) return false;
  std::error_code unknown;  // a loop of links, or a folder that may not be read
  const auto path_of = [&](const Config& config) {
    return fs::weakly_canonical(fs::absolute(config.model.from, unknown) / "", unknown);
  };
  const fs::path first = path_of(a);
  if (unknown) return a.model.from == b.model.from;
  const fs::path second = path_of(b);
  return unknown ? a.model.from == b.model.from : first == second;
}

bool names_preset(const Config& config) {
  const auto origin = config.origins.find("model.preset");
  if (origin == config.origins.end()) return false;
  return !is_file(origin->second) || config.model.preset != ModelConfig().preset;
}

std::string step_at(const std::string& path) {
  if (checkpoint::is_hf_folder(path)) return {};
  try {
    const std::vector<checkpoint::Listing> candidates = checkpoint::candidates(path, checkpoint::kAnyRun);
    const checkpoint::Listing* const newest = checkpoint::newest_valid(candidates);
    return newest == nullptr ? std::string() : newest->path;
  } catch (const DataError&) {
    return {};
  }
}

std::optional<checkpoint::RunState> state_at(const std::string& path) {
  const std::string step = step_at(path);
  if (step.empty()) return std::nullopt;
  try {
    return checkpoint::read_state(step);
  } catch (const DataError&) {
    return std::nullopt;
  }
}

std::optional<Config> known_config(const checkpoint::RunState& state, const Models& models) {
  try {
    return with_derived(config_from_toml(state.config, "manifest.json", models));
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

std::optional<Config> config_of_run(const std::string& run_dir, const Models& models) {
  const std::string path = run_dir + "/config.toml";
  const io::FileText text = io::read_file(path, /*only_regular=*/true);
  if (!text.problem.empty()) return std::nullopt;
  try {
    return config_from_toml(text.text, path, models);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

Config config_of(const checkpoint::RunState& state) { return known_config(state).value_or(Config()); }

std::optional<nn::TransformerSpec> model_at(const std::string& path) {
  if (checkpoint::is_hf_folder(path)) return checkpoint::read_hf_spec(path);
  const std::optional<checkpoint::RunState> state = state_at(path);
  if (!state) return std::nullopt;
  try {
    return checkpoint::model_from_json(state->model).spec;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

void require_model_at(const std::string& from) {
  if (model_at(from)) return;
  std::vector<std::string> found;
  if (fs::is_directory(from)) {
    for (const checkpoint::Listing& listing : checkpoint::candidates(from, checkpoint::kAnyRun)) {
      found.push_back(fmt::format("{}: {}", fs::path(listing.path).filename().string(),
                                  listing.valid ? "no transformer" : listing.reason));
    }
  }
  const bool is_file = fs::is_regular_file(from);
  const checkpoint::FoundInstead other = checkpoint::found_instead(from);
  throw DataError("checkpoint",
                  fmt::format("model.from: {}: expected a Hugging Face folder or a checkpoint, found {}", from,
                              !found.empty()         ? fmt::format("{}", fmt::join(found, "; "))
                              : is_file              ? "a file"
                              : !other.found.empty() ? other.found
                                                     : "none"),
                  is_file ? "the folder of config.json and the weights, or that of a run or a step" : other.hint);
}

void require_same_spec(const nn::TransformerSpec& spec, const nn::TransformerSpec& base, const std::string& where) {
  const nn::SpecField* const field = difference_of(spec, base, {});
  if (field == nullptr) return;
  throw DataError("checkpoint", fmt::format("{}: {}: expected {}, as the model has, found {}", where, field->name,
                                            text_of_field(spec, *field), text_of_field(base, *field)));
}

void require_same_model(const Config& config) {
  const std::string& from = config.model.from;
  require_model_at(from);
  const nn::TransformerSpec base = *model_at(from);
  const nn::TransformerSpec spec = model_spec(config);
  constexpr const char* kLeaveOut = "leave the key out: the model is that of model.from";
  if (const nn::SpecField* const field = difference_of(spec, base, config)) {
    throw UsageError("config", key_of_field(*field),
                     fmt::format("{}, as model.from {} has", text_of_field(base, *field), from),
                     text_of_field(spec, *field), kLeaveOut);
  }
  // A folder's config.json takes the place of a preset.
  if (!checkpoint::is_hf_folder(from) || !names_preset(config)) return;
  const nn::TransformerSpec preset = nn::with_defaults(nn::preset(config.model.preset));
  if (const nn::SpecField* const field = difference_of(preset, base, {})) {
    throw UsageError(
        "config", "model.preset",
        fmt::format("the model of model.from {}, with {} {}", from, field->name, text_of_field(base, *field)),
        fmt::format("{} with {} {}", config.model.preset, field->name, text_of_field(preset, *field)), kLeaveOut);
  }
}

}  // namespace lt::config
