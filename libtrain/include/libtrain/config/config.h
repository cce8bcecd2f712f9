// The configuration of a run: one struct per section, bound to key names by one table (config/config_schema.cpp).
// Later layers override earlier ones: defaults, TOML file, environment (LTRAIN_SECTION_KEY), command line
// (--section.key=value).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/config/model_table.h"
#include "libtrain/data/data.h"
#include "libtrain/data/data_source.h"
#include "libtrain/device/device.h"
#include "libtrain/dtype.h"
#include "libtrain/nn/module.h"
#include "libtrain/nn/transformer_spec.h"
#include "libtrain/optim/optimizer.h"
#include "libtrain/parallel/strategy.h"

namespace LT_API lt {

using nn::Recompute;

// The keys of [model] that do not depend on the model.
struct WeightsConfig {
  std::string from = {};                 // initial weights: a checkpoint, or for a transformer a Hugging Face folder
  std::vector<std::string> freeze = {};  // patterns of parameters that are not trained
};

// Unset fields of a transformer take the values of the preset.
struct ModelConfig : nn::TransformerSpec, WeightsConfig {
  ModelConfig() { family.clear(); }

  std::string preset = "gpt-tiny";
  ModelValues own = {};  // the fields of all rows of the program's table
};

enum class Documents {
  cross,  // a sample is read across the ends of documents
  mask,   // attention, positions and targets stay inside a document
};

struct DataConfig {
  std::vector<std::string> train = {}, val = {};
  std::vector<DataSource> sources = {};  // in place of train
  Documents documents = Documents::cross;
  double epochs = 0;  // in place of train.steps, which follows; 0: train.steps counts
  std::uint64_t seed = 1337;
  bool shuffle = true;
  TokenFormat format = TokenFormat::automatic;
};

// The library of the collectives.
enum class CommBackend { automatic, mpi, nccl };

struct ParallelConfig {
  Strategy strategy = Strategy::ddp;
  Size shard_size = 0;  // 0: all ranks
  Recompute recompute = Recompute::none;
  Size recompute_every = 1;
  DType reduce_dtype = DType::f32;               // f32 or bf16
  CommBackend backend = CommBackend::automatic;  // nccl on cuda, mpi on cpu
};

// The dtype of a computation. fp8: bf16, with the products of blocks in e4m3.
enum class Precision { f32, bf16, f16, fp8 };

struct TrainConfig {
  Size steps = 1000;
  double max_minutes = 0;                             // 0: no limit
  Size micro_batch = 8, accum = 1, global_batch = 0;  // global_batch 0: ranks x micro_batch x accum
  Size seq = 0;                                       // 0: max_seq of the model
  Precision dtype = Precision::f32;
  std::optional<DeviceType> device = std::nullopt;  // none: cuda if this build and this machine have it, else cpu
  std::uint64_t seed = 1337;
  bool deterministic = false;
  Size eval_every = 0, eval_tokens = 0;  // eval_tokens 0: the whole set
  Size eval_steps = 0;                   // deprecated: of global batches; 0: by eval_tokens
  Size sample_every = 0;
  std::optional<bool> cuda_graph = std::nullopt;  // none: true on GPUs, but not with parallel.backend=mpi
  bool tf32 = false;
  double z_loss = 0, label_smoothing = 0;
};

// Settings for the parameters that `match` selects by name.
struct OptimGroupConfig {
  std::string match;  // * stands for any text
  double lr_scale = 1;
  double weight_decay = -1;  // negative: optim.weight_decay
  std::string optimizer;     // empty: optim.name
};

struct OptimConfig {
  std::string name = "adamw";
  double lr = 3e-4, min_lr = -1;  // min_lr < 0: lr / 10
  Size warmup = 0;
  Decay schedule = Decay::cosine;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1, momentum = 0.95, clip = 1.0;
  DType state_dtype = DType::f32;             // f32 or bf16
  std::optional<DType> master = DType::f32;   // f32, or none: bf16 weights alone
  double ema = 0;                             // decay of the weights' moving average; 0: none
  std::vector<OptimGroupConfig> groups = {};  // a parameter belongs to the first that matches it
};

struct CheckpointConfig {
  std::string dir = {};  // empty: <run.dir>/checkpoints
  Size every = 0;        // 0: at the end only
  double every_minutes = 0;
  Size keep = 3;
  Size keep_every = 0;  // 0: none
  bool best = false;
  bool async = false;
  Size memory_every = 0;  // 0: none
  std::string resume = "auto";
};

struct RecordConfig {
  Size every = 10;
  Size trace_steps = 0, profile_steps = 0;
  bool tensorboard = false, csv = false;
};

struct WatchdogConfig {
  double heartbeat_s = 5, collective_s = 60, init_s = 120;
};

struct RunConfig {
  std::string dir = "runs/default", name = {};
  bool force = false;
};

struct Config {
  ModelConfig model;
  DataConfig data;
  ParallelConfig parallel;
  TrainConfig train;
  OptimConfig optim;
  CheckpointConfig checkpoint;
  RecordConfig record;
  WatchdogConfig watchdog;
  RunConfig run;

  // Which keys [model] has. Configurations of other tables come from default_config() and load_config().
  Models models = transformer_models();
  std::map<std::string, std::string> origins;  // by key that a layer set, for errors: "from run.toml:3"
  std::set<std::string> derived;               // keys that no layer set, whose value resolve() derived from others
};

// One key, as `--help` shows it.
struct ConfigKey {
  std::string name;                  // "train.micro_batch"
  std::string fallback;              // the default, as TOML text
  std::string help;                  // meaning, unit, choices
  std::vector<std::string> choices;  // the only values; empty: others too
};
std::vector<ConfigKey> config_keys(const Models& models = transformer_models());

// All keys at their defaults.
Config default_config(const Models& models);
// The program's row that model.family names; null for a transformer, and for a model that no row describes.
const ModelRow* own_row(const Config& config);
// Builds a configuration from its layers. `file` may be empty; if it is the config.toml of a run's folder, run.dir is
// that folder, wherever it is now; `command_line` holds ("section.key", "value") pairs in the order given. Throws
// UsageError (component "config") for an unknown key (with the nearest valid one), a wrong type or value, or broken
// TOML (file and line). Every layer is checked, even if a later one overrides it.
Config load_config(const std::string& file, const std::vector<std::pair<std::string, std::string>>& command_line,
                   const Models& models = transformer_models());

// Reads `text`, as written by to_toml(). Errors name it `source`.
Config config_from_toml(const std::string& text, const std::string& source,
                        const Models& models = transformer_models());

// The same for text that a start wrote, in which earlier versions left a cleared key empty.
Config config_of_start(const std::string& text, const std::string& source, const Models& models);

// The whole configuration as TOML. load_config() reads it back as the same configuration. A derived key stays as it was
// given, with its value in a comment: `min_lr = -1.0  # = 3e-05`. So it follows again when the file is read.
std::string to_toml(const Config& config);
// Values by "section.key", as TOML text, those of derived keys too.
std::map<std::string, std::string> flatten(const Config& config);

}  // namespace lt
