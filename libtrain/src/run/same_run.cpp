// Decides whether two configurations describe the same run.
#include "run/same_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "config/base_model.h"
#include "config/config_schema.h"
#include "config/derive.h"
#include "config/open_fields.h"
#include "config/resolve.h"
#include "data/mixture.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "nn/lora.h"
#include "nn/spec_fields.h"

namespace lt::run {
namespace {

// True for keys that make it a different run if they change: all keys of the model, the training data and the
// optimizer, the loss, the sample length, and the source of the initial weights. Keys that only say how a run is
// computed or measured may change.
bool decides_the_run(const std::string& key) {
  if (key == "model.preset" || key == "data.val" || key == "data.epochs") return false;
  return key.starts_with("model.") || key.starts_with("data.") || key.starts_with("optim.") || key == "train.seq" ||
         key == "train.seed" || key == "train.z_loss" || key == "train.label_smoothing";
}

// Keys outside [model] that older configurations lack.
constexpr std::string_view kOpenKeys[] = {"data.documents", "data.sources", "train.label_smoothing", "train.z_loss"};

// The shares of the sources of training data: 3 and 1 are the same as 0.75 and 0.25.
std::vector<Size> shares_of(const Config& config) {
  std::vector<double> weights;
  for (const DataSource& source : config::data_spec(config).sources) weights.push_back(source.weight);
  return data::Mixture::shares_of(weights);
}

// For a configuration that was read: to_toml() leaves out the keys of a schedule that the program replaced.
bool had_own_schedule(const Config& earlier) { return !earlier.origins.contains("optim.schedule"); }

}  // namespace

void require_same_run(const Config& complete, const std::string& earlier, const std::string& where, bool same_files) {
  constexpr const char* kOtherFolder =
      "choose another --run.dir, or --checkpoint.resume=never --run.force=true to move the old run aside";
  Config earlier_config;
  try {
    earlier_config = config::with_derived(config_from_toml(earlier, where, complete.models));
  } catch (const UsageError& error) {  // another program wrote it, with models that this one does not have
    throw UsageError("config",
                     fmt::format("run.dir {}: expected a run of this program, found one that it cannot read: {}",
                                 complete.run.dir, error.what()),
                     kOtherFolder);
  }
  const auto now = flatten(complete), before = flatten(earlier_config);
  const bool same_sources = same_files && shares_of(complete) == shares_of(earlier_config);
  // The digest in the checkpoints says whether it is the same base.
  const bool moves_base =
      nn::has_adapters(complete.model) && !complete.model.from.empty() && !earlier_config.model.from.empty();
  std::string differences;
  for (const auto& [key, value] : now) {
    if (!decides_the_run(key) || (same_sources && (key == "data.train" || key == "data.sources"))) continue;
    if (key == "model.from" && (moves_base || config::begin_from_one_path(complete, earlier_config))) continue;
    const auto found = before.find(key);
    if (found != before.end() && found->second != value) {
      differences += fmt::format("{}{}: {} there, {} now", differences.empty() ? "" : "; ", key, found->second, value);
    }
  }
  const bool is_own = complete.replaced.contains("optim.schedule");
  const bool is_known = earlier_config.origins.contains("optim.clip");
  if (is_known && had_own_schedule(earlier_config) != is_own) {
    const auto text = [](bool own) { return own ? "the program's own" : "that of the other keys of [optim]"; };
    differences +=
        fmt::format("{}schedule: {} there, {} now", differences.empty() ? "" : "; ", text(!is_own), text(is_own));
  }
  if (differences.empty()) return;
  throw UsageError("config",
                   fmt::format("run.dir {}: {} has another configuration: {}", complete.run.dir, where, differences),
                   kOtherFolder);
}

std::vector<std::string> order_changes(const Config& earlier, const Config& now) {
  std::vector<std::string> lines;
  const auto compare = [&](const std::string& what, const auto& before, const auto& after) {
    if (before != after) lines.push_back(fmt::format("{}: {} before, {} now", what, before, after));
  };
  compare("data.shuffle", earlier.data.shuffle, now.data.shuffle);
  if (now.data.shuffle) compare("data.seed", earlier.data.seed, now.data.seed);
  const auto ratio = [](const Config& config) { return fmt::format("{}", fmt::join(shares_of(config), ":")); };
  compare("weights of the sources", ratio(earlier), ratio(now));
  return lines;
}

std::vector<std::string> bit_changes(const Config& earlier, const Config& now) {
  // Other keys of [data] and the base of adapters are compared by the bytes of the files. A schedule may agree in all
  // steps that are done.
  const auto changes_bits = [](const std::string& key) {
    if (key.starts_with("data.")) return key == "data.documents";
    if (key == "model.from") return false;
    return decides_the_run(key) || key.starts_with("batches.") || key == "train.deterministic" ||
           key == "train.global_batch" || key == "train.micro_batch" || key == "train.dtype" || key == "train.tf32" ||
           key == "train.device" || key == "parallel.reduce_dtype";
  };
  const auto before = flatten(earlier);
  std::vector<std::string> lines;
  for (const auto& [key, value] : flatten(now)) {
    const auto found = before.find(key);
    // The program replaces keys of [optim] by functions, which cannot be compared.
    const bool is_known = !key.starts_with("optim.") || earlier.origins.contains(key);
    if (!changes_bits(key) || found == before.end() || !is_known || found->second == value) continue;
    lines.push_back(fmt::format("{}: {} before, {} now", key, found->second, value));
  }
  return lines;
}

std::string config_hash(const Config& complete) {
  std::string text;
  const auto unset = flatten(default_config(complete.models));
  for (const auto& [key, value] : flatten(complete)) {
    // Open keys are left out, so that configurations without these keys have the same hash.
    const bool may_be_open = std::ranges::find(kOpenKeys, key) != std::end(kOpenKeys) ||
                             std::ranges::any_of(nn::spec_fields(), [&key = key](const nn::SpecField& field) {
                               return config::is_left_open(field) && key == config::key_of_field(field);
                             });
    const auto fallback = unset.find(key);
    if (decides_the_run(key) && !(may_be_open && fallback != unset.end() && value == fallback->second))
      text += key + "=" + value + "\n";
  }
  return fmt::format("{:016x}", derive_key(0, text));
}

}  // namespace lt::run
