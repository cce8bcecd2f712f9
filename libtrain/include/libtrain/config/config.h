// The configuration of a run: one struct per section. One table (config/config_schema.cpp) binds the members to key
// names; docs/reference/configuration.md explains every key, in the order of the members. Later layers override earlier
// ones: defaults, TOML file, environment (LTRAIN_SECTION_KEY), command line (--section.key=value).
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
#include "libtrain/parallel/determinism.h"
#include "libtrain/parallel/strategy.h"

namespace LT_API lt {

using nn::Recompute;

// The keys of [model] that every model has.
struct WeightsConfig {
  std::string from = {};                 // initial weights: a checkpoint or, for a transformer, a Hugging Face folder
  std::vector<std::string> freeze = {};  // name patterns of parameters that are not trained
};

// An unset field of a transformer takes the value of model.from or of the preset.
struct ModelConfig : nn::TransformerSpec, WeightsConfig {
  ModelConfig() { family.clear(); }

  std::string preset = "gpt-tiny";
  ModelValues own = {};  // values of the fields of all ModelTable::rows, by name
};

enum class Documents {
  cross,  // a sample may span several documents, like one text
  mask,   // attention, positions and targets stay inside a document
};

struct DataConfig {
  std::vector<std::string> train = {}, val = {};  // token files or glob patterns
  std::vector<DataSource> sources = {};           // replaces `train`: token files mixed by weight
  Documents documents = Documents::cross;
  double epochs = 0;  // passes over the data; replaces train.steps; 0: train.steps decides
  std::uint64_t seed = 1337;
  bool shuffle = true;
  TokenFormat format = TokenFormat::automatic;
};

// The library that runs the collectives.
enum class CommBackend { automatic, mpi, nccl };

struct ParallelConfig {
  Strategy strategy = Strategy::ddp;
  Size shard_size = 0;  // ranks per shard group; 0: all ranks
  Recompute recompute = Recompute::none;
  Size recompute_every = 1;                      // recomputes every n-th block
  DType reduce_dtype = DType::f32;               // of gradients in transit: f32 or bf16; sums are f32
  CommBackend backend = CommBackend::automatic;  // automatic: nccl on cuda, mpi on cpu
};

// The dtype of the computation. fp8: bf16, with the matmuls of blocks in e4m3.
enum class Precision { f32, bf16, f16, fp8 };

struct TrainConfig {
  Size steps = 1000;
  double max_minutes = 0;                             // of training, per start; 0 disables the limit
  Size skip_nonfinite = 0;                            // steps in a row without an update before exit code 5
  Size micro_batch = 8, accum = 1, global_batch = 0;  // global_batch: samples; 0: ranks x micro_batch x accum
  Size seq = 0;                                       // tokens per sample; 0: Model::default_seq()
  std::optional<Precision> dtype = std::nullopt;      // nullopt: as in the checkpoint; else bf16 on cuda, f32 on cpu
  std::optional<DeviceType> device = std::nullopt;    // nullopt: cuda if build and machine have it, else cpu
  std::uint64_t seed = 1337;
  Determinism deterministic = Determinism::off;
  std::string algorithms = {};                    // file with a table of matmul algorithms; empty: the library's table
  Size eval_every = 0, eval_tokens = 0;           // steps, 0: never; tokens, 0: all of data.val
  Size sample_every = 0;                          // steps; 0: never
  std::optional<bool> cuda_graph = std::nullopt;  // nullopt: true on cuda unless parallel.backend=mpi
  bool tf32 = false;
  double z_loss = 0, label_smoothing = 0;
};

// Settings of the parameters whose names match.
struct OptimGroupConfig {
  std::string match = {};      // pattern of names; * matches any text
  double lr_scale = 1;         // multiplies the learning rate
  double weight_decay = -1;    // negative: optim.weight_decay
  std::string optimizer = {};  // empty: optim.name
};

struct OptimConfig {
  std::string name = "adamw";
  double lr = 3e-4, min_lr = -1;  // min_lr < 0: lr / 10
  Size warmup = 0;                // steps
  Decay schedule = Decay::cosine;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1, momentum = 0.95, clip = 1.0;
  DType state_dtype = DType::f32;             // f32 or bf16
  std::optional<DType> master = DType::f32;   // f32, or nullopt: bf16 weights without master weights
  double ema = 0;                             // decay of the moving average of the weights; 0 disables it
  std::vector<OptimGroupConfig> groups = {};  // the first match decides; other parameters use the keys above
};

struct CheckpointConfig {
  std::string dir = {};       // empty: <run.dir>/checkpoints
  Size every = 0;             // steps; 0: not by steps. The last step is always saved
  double every_minutes = -1;  // 0: not by time; -1: 30 if `every` is 0, else 0
  Size keep = 3;              // number of newest checkpoints kept; at least 2
  Size keep_every = 0;        // also keeps steps that are multiples of it; 0 disables it
  bool best = false;          // also keeps the checkpoint with the lowest evaluation loss
  // Writes while training continues. nullopt: if the default of 30 minutes applies and all hosts have memory for the
  // copies.
  std::optional<bool> async = std::nullopt;
  Size memory_every = 0;        // steps between copies in host memory; 0: never
  std::string resume = "auto";  // "auto", "never" or a folder: see Resume
};

struct RecordConfig {
  Size every = 10;                          // steps between console lines
  Size trace_steps = 0, profile_steps = 0;  // number of steps in the trace, and of these with GPU kernels
  bool tensorboard = false, csv = false;
};

// Limits in seconds: for the silence of a rank, for a collective without progress, for the meeting of all ranks.
struct WatchdogConfig {
  double heartbeat_s = 5, collective_s = 60, init_s = 120;
};

struct RunConfig {
  std::string dir = "runs/default", name = {};
  bool force = false;  // moves an existing run aside if a fresh one is requested
};

struct Config {
  ModelConfig model;
  DataConfig data;
  ModelValues batches = {};  // values of the batch_fields of all ModelTable::rows, by name
  ParallelConfig parallel;
  TrainConfig train;
  OptimConfig optim;
  CheckpointConfig checkpoint;
  RecordConfig record;
  WatchdogConfig watchdog;
  RunConfig run;

  // Decides which keys [model] has. default_config() and load_config() make a configuration for another table.
  Models models = transformer_models();
  std::map<std::string, std::string> origins;  // for each key that a layer set, for errors: "from run.toml:3"
  std::set<std::string> derived;               // keys that no layer set and that resolve() derived from others
  std::set<std::string> replaced;              // keys without effect, because the program gave a function instead
};

// One key, as `--help` shows it.
struct ConfigKey {
  std::string name;                  // "train.micro_batch"
  std::string fallback;              // default, as TOML text
  std::string help;                  // meaning, unit, choices
  std::vector<std::string> choices;  // the allowed values; empty: not restricted to a list
  // The fields of a table that are options too: "model.lora.rank". Their fallbacks are words for people.
  std::vector<ConfigKey> fields;
};
// Returns all keys, in the order of `--help`.
std::vector<ConfigKey> config_keys(const Models& models = transformer_models());

// Returns a configuration with all keys at their defaults.
Config default_config(const Models& models);
// Returns the row of config.models that model.family names; null if there is none, as for a built-in transformer.
const ModelRow* own_row(const Config& config);
// Returns true if the run has the same bits at several rank counts (train.deterministic=elastic).
inline bool is_elastic(const Config& config) { return config.train.deterministic == Determinism::elastic; }
// Builds a configuration from its layers. `file` may be empty. `command_line` holds ("section.key", "value") pairs in
// the order given. If `file` is the config.toml of a run's folder, run.dir becomes that folder, even if it was moved,
// and the file's checkpoint.resume and run.force are ignored. Throws UsageError (component "config") for an unreadable
// file, broken TOML (with file and line), an unknown key (with the nearest valid one), and a wrong type or value.
// Checks every layer, even if a later one overrides it.
Config load_config(const std::string& file, const std::vector<std::pair<std::string, std::string>>& command_line,
                   const Models& models = transformer_models());

// Reads `text`, as to_toml() writes it, without environment and command line. Errors name it `source`. Throws
// UsageError as load_config() does.
Config config_from_toml(const std::string& text, const std::string& source,
                        const Models& models = transformer_models());

// Returns the complete configuration as TOML. load_config() reads it back as the same configuration. A derived key
// keeps its default, with the derived value in a comment, `min_lr = -1.0  # = 3e-05`, so a reader derives it again. A
// replaced key is a comment.
std::string to_toml(const Config& config);
// Returns the value of each key that is not replaced, derived ones included, as TOML text by "section.key".
std::map<std::string, std::string> flatten(const Config& config);

}  // namespace lt
