// Fills in every value of a configuration that follows from other keys, from model.from or from the machine.
#include "config/derive.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "checkpoints/hugging_face/base_weights.h"
#include "checkpoints/hugging_face/hf_folder.h"
#include "config/base_model.h"
#include "config/config_checks.h"
#include "config/config_schema.h"
#include "config/model_table.h"
#include "config/open_fields.h"
#include "config/origin.h"
#include "libtrain/error.h"
#include "nn/lora.h"
#include "nn/model_family.h"
#include "nn/spec_fields.h"
#include "record/short_text.h"

namespace lt::config {
namespace {

// The model of the run in run.dir if it began from the present model.from, which need not be there any more.
std::optional<nn::TransformerSpec> model_of_run(const Config& config) {
  if (config.checkpoint.resume != "auto") return std::nullopt;
  const std::optional<Config> of_run = config_of_run(config.run.dir, config.models);
  if (!of_run || !begin_from_one_path(*of_run, config) || !is_transformer(*of_run)) return std::nullopt;
  nn::TransformerSpec spec = of_run->model;
  spec.lora = {};  // the base has none
  return nn::with_defaults(spec);
}

// The description that the keys of [model] start from: that of model.from, unless a checkpoint stands there and a layer
// names a preset; else the preset's.
nn::TransformerSpec base_of(const Config& config) {
  const std::string& from = config.model.from;
  auto there = from.empty() ? std::nullopt : model_at(from);
  if (!from.empty() && !there) there = model_of_run(config);
  if (there && nn::has_adapters(*there)) {
    throw UsageError(
        "config", fmt::format("model.from {}: expected a whole model, found adapters", from),
        "`ltrain checkpoint export` merges them into their base; checkpoint.resume continues their training");
  }
  if (there && (checkpoint::is_hf_folder(from) || !names_preset(config))) return *there;
  return nn::preset(config.model.preset);
}

// Whether the empty value of a key says that there is no dropout, or no scaling. Elsewhere it stands for the value of
// the preset or of model.from, also in a file, since to_toml() writes every key. A program's model has no open keys.
bool means_none(const nn::SpecField& field, const Config& config) {
  const auto origin = config.origins.find(key_of_field(field));
  if (origin == config.origins.end()) return false;
  if (origin->second == kFromProgram) return true;
  return (field.name == "dropout" || field.name == "rope_scaling") && !is_file(origin->second);
}

// Derives missing parts of the shape if only some are given: a changed width resets the feed-forward width, changed
// heads reset the key/value heads, and either one resets head_dim.
nn::TransformerSpec completed(nn::TransformerSpec spec, const Config& config) {
  const ModelConfig& model = config.model;
  const bool new_width = model.width != 0 && model.width != spec.width;
  const bool new_heads = model.heads != 0 && model.heads != spec.heads;
  if (new_width) spec.ffn = 0;
  if (new_heads) spec.kv_heads = 0;
  if (new_width || new_heads) spec.head_dim = 0;
  for (const nn::SpecField& field : nn::spec_fields()) {
    if (nn::is_set(model, field) || means_none(field, config)) nn::copy_field(spec, model, field);
  }
  return nn::with_defaults(spec);
}

// Gives a key that no layer set the value that follows from other keys, or from the machine.
template <class T>
void derive(Config& config, const char* key, T& member, const T& value) {
  member = value;
  config.derived.insert(key);
}

void derive_seq(Config& config) {
  const Size seq = default_seq(config);
  if (is_transformer(config)) {
    if (seq > 0) derive(config, "train.seq", config.train.seq, seq);  // else model.from says it
    return;
  }
  config.train.seq = seq;  // a given value for the run: the program may say another later
  if (seq > 0) return;
  throw UsageError("config", "train.seq", "the tokens of a sample", "none",
                   "give train.seq, or return it from the model's default_seq(): 1 if samples are not sequences");
}

// What follows from other keys alone.
void derive_from_keys(Config& config) {
  TrainConfig& train = config.train;
  OptimConfig& optim = config.optim;
  if (train.seq == 0) derive_seq(config);
  if (optim.min_lr < 0) derive(config, "optim.min_lr", optim.min_lr, optim.lr / 10);
  CheckpointConfig& checkpoint = config.checkpoint;
  if (checkpoint.dir.empty()) derive(config, "checkpoint.dir", checkpoint.dir, own_checkpoints(config.run.dir));
  double& minutes = checkpoint.every_minutes;
  const bool is_default = minutes < 0 && checkpoint.every == 0;
  if (minutes < 0) derive(config, "checkpoint.every_minutes", minutes, is_default ? kDefaultSaveMinutes : 0);
  // Otherwise a run decides when it opens, because it depends on the memory of its hosts.
  if (!is_default && !checkpoint.async) {
    derive<std::optional<bool>>(config, "checkpoint.async", checkpoint.async, false);
  }
}

// Fills in the section [model].
void fill_in_model(Config& config) {
  require_keys_of_model(config);
  if (!is_transformer(config)) {
    if (has_own_batches(config) && config.data.documents == Documents::mask) {
      throw UsageError("config", "data.documents", "cross with batches of the program's own", "mask");
    }
    return;
  }
  const std::string& from = config.model.from;
  // Check the base early, except on a resume, which may find it elsewhere.
  if (nn::has_adapters(config.model) && !from.empty() && !model_of_run(config)) checkpoint::find_base(from);
  const nn::TransformerSpec base = base_of(config), spec = completed(base, config);
  nn::validate(spec);
  ModelConfig& model = config.model;
  const nn::ModelFamily& family = nn::find_family(spec.family);
  if (!family.rotary && spec.rope_base != family.defaults.rope_base) {
    throw UsageError("config", "model.rope_base", fmt::format("none for {}, which has learned positions", spec.family),
                     fmt::format("{}", spec.rope_base));
  }
  const nn::TransformerSpec given = model;
  static_cast<nn::TransformerSpec&>(model) = spec;
  if (spec.rope_scaling.empty() && !base.rope_scaling.empty()) model.rope_scaling = nn::kNoRopeScaling;
  // Leave fields open that follow from the family or from other fields, so that they still follow if this configuration
  // is used with another width or family.
  for (const nn::SpecField& field : nn::spec_fields()) {
    if (!is_left_open(field) || !nn::is_default(spec, field)) continue;
    Config without = config;
    nn::copy_field(without.model, {.family = ""}, field);
    without.origins.erase(key_of_field(field));
    if (nn::is_equal(completed(base, without), spec, field)) model = without.model;
  }
  // The preset's fields follow it. A run needs those of model.from after the folder is gone.
  for (const nn::SpecField& field : nn::spec_fields()) {
    const bool follows = !nn::is_set(given, field) && nn::is_set(spec, field) && nn::is_set(model, field);
    if (from.empty() && follows) config.derived.insert(key_of_field(field));
  }
  if (config.train.seq > spec.max_seq) {
    throw UsageError("config", "train.seq", fmt::format("at most model.max_seq {}", spec.max_seq),
                     std::to_string(config.train.seq));
  }
}

void fill_in(Config& config, DeviceType automatic) {
  fill_in_model(config);
  derive_from_keys(config);
  TrainConfig& train = config.train;
  if (!train.device) derive<std::optional<DeviceType>>(config, "train.device", train.device, automatic);
  const bool is_on_gpu = train.device == DeviceType::cuda;
  if (!train.cuda_graph) {
    derive<std::optional<bool>>(config, "train.cuda_graph", train.cuda_graph,
                                is_on_gpu && config.parallel.backend != CommBackend::mpi);
  }
  if (!train.dtype) {
    derive<std::optional<Precision>>(config, "train.dtype", train.dtype,
                                     is_on_gpu && !train.tf32 ? Precision::bf16 : Precision::f32);
  }
  check(config);
}

}  // namespace

Config with_derived(Config given) {
  name_keys(given, [&] {
    if (is_transformer(given) && given.model.from.empty()) fill_in_model(given);
    derive_from_keys(given);
  });
  return given;
}

Config complete(const Config& given, int ranks, DeviceType automatic) {
  Config config = given;
  name_keys(config, [&] { fill_in(config, automatic); });
  return with_batch(std::move(config), ranks);
}

namespace {

// Counts of samples and tokens are exact in 64 bits, also as floating-point numbers.
void require_countable(const TrainConfig& train, int ranks) {
  constexpr double kMostTokens = 0x1p53;
  const Size seq = std::max<Size>(1, train.seq);  // 0: not derived yet
  const double tokens = static_cast<double>(ranks) * static_cast<double>(train.micro_batch) *
                        static_cast<double>(train.accum) * static_cast<double>(seq);
  if (tokens <= kMostTokens) return;
  throw UsageError("config",
                   fmt::format("tokens of a step: expected at most 2^53, got {} ranks x train.micro_batch {} x "
                               "train.accum {}{} = {:.3g}",
                               ranks, train.micro_batch, train.accum,
                               train.seq > 0 ? fmt::format(" x train.seq {}", train.seq) : "", tokens));
}

// The rank counts of an elastic run with this micro-batch and global batch; any allowed ones if no global batch of
// whole micro-batches is given.
std::vector<int> counts_of(const TrainConfig& train) {
  const bool is_given = train.global_batch > 0 && train.global_batch % train.micro_batch == 0;
  return elastic_rank_counts(is_given ? train.global_batch / train.micro_batch : kMostElasticRanks);
}

// A power of two that is too large for the global batch is left to set_accum(), which names that key.
void require_elastic_ranks(const Config& config, int ranks) {
  if (std::has_single_bit(static_cast<unsigned>(ranks)) && ranks <= kMostElasticRanks) return;
  const std::vector<int> counts = counts_of(config.train);
  const auto above = std::ranges::upper_bound(counts, ranks);  // the first one is 1, which is allowed
  name_keys(config, [&] {
    throw UsageError("config", "train.deterministic",
                     fmt::format("a power of two of at most {} ranks with elastic", kMostElasticRanks),
                     fmt::format("{} ranks", ranks),
                     above == counts.end()
                         ? fmt::format("the nearest that works is {}", counts.back())
                         : fmt::format("the nearest that work are {} and {}", *std::prev(above), *above));
  });
}

void set_accum(Config& config, int ranks) {
  TrainConfig& train = config.train;
  name_keys(config, [&] {
    const Size once = ranks * train.micro_batch, accum = train.global_batch / once;
    if (train.global_batch % once != 0) {
      std::string hint = accum == 0
                             ? fmt::format("the nearest that works is {}", once)
                             : fmt::format("the nearest that work are {} and {}", accum * once, (accum + 1) * once);
      if (is_elastic(config) && train.global_batch % train.micro_batch == 0) {
        hint += fmt::format("; {} works on {}", train.global_batch, recorder::counted(counts_of(train).back(), "rank"));
      }
      throw UsageError("config", "train.global_batch",
                       fmt::format("a multiple of {} ranks x micro_batch {}", ranks, train.micro_batch),
                       std::to_string(train.global_batch), hint);
    }
    const auto origin_of = [&](const char* key) {
      const auto origin = config.origins.find(key);
      return origin == config.origins.end() ? std::string() : origin->second;
    };
    const auto in_file = [&](const char* key) { return !origin_of(key).empty() && is_file(origin_of(key)); };
    // A global batch that a resume keeps takes precedence over any accum. The start says so.
    const bool is_kept = origin_of("train.global_batch") == kFromCheckpoint;
    // The config.toml of a run has the accum of its ranks and its micro_batch. Another file contradicts itself.
    const bool is_whole = in_file("train.micro_batch") && in_file("train.global_batch");
    const bool of_other_ranks =
        in_file("train.accum") && (!is_whole || train.global_batch / train.micro_batch % train.accum == 0);
    if (!is_kept && !of_other_ranks && train.accum != TrainConfig().accum && train.accum != accum) {
      throw UsageError("config", "train.accum",
                       fmt::format("{}, which follows from train.global_batch {} on {} ranks with micro_batch {}",
                                   accum, train.global_batch, ranks, train.micro_batch),
                       std::to_string(train.accum), "leave one of them out; --train.accum=1 counts as left out");
    }
    if (train.accum != accum) derive(config, "train.accum", train.accum, accum);
  });
}

}  // namespace

Config with_batch(Config config, int ranks) {
  TrainConfig& train = config.train;
  const bool is_given = train.global_batch > 0;
  if (is_elastic(config)) require_elastic_ranks(config, ranks);
  if (is_given) set_accum(config, ranks);
  require_countable(train, ranks);
  // Not a derived key: the files of a run must say the number itself, because a resume may have other ranks.
  if (is_elastic(config) && !is_given) train.global_batch = ranks * train.micro_batch * train.accum;
  return config;
}

nn::TransformerSpec model_spec(const Config& config) {
  if (!is_transformer(config)) {
    throw UsageError("config", "model.family", "a transformer",
                     config.model.family.empty() ? "the program's own model" : config.model.family);
  }
  const nn::TransformerSpec spec = completed(base_of(config), config);
  nn::validate(spec);
  return spec;
}

}  // namespace lt::config
