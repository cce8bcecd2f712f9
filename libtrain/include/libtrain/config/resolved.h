// The complete settings of a run, made from a Config: every value is decided, and has the type that the code that uses
// it expects. Three values are decided later, when the run opens: the index of a rank's device, the number of steps if
// data.epochs is set, and checkpoint.async if it is auto and depends on the memory of the hosts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/config/config.h"
#include "libtrain/data/batch_source.h"
#include "libtrain/data/data.h"
#include "libtrain/data/data_source.h"
#include "libtrain/nn/models.h"
#include "libtrain/optim/optimizer_groups.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/watchdog/watchdog.h"

namespace LT_API lt {

// The training data, and the files for evaluation.
struct DataSpec {
  std::vector<DataSource> sources;  // empty: no training files are configured
  std::string key;                  // the key that set `sources`: data.train or data.sources
  std::vector<std::string> val;     // token files or glob patterns
  Documents documents = Documents::cross;
  double epochs = 0;  // passes over the data; 0: the number of steps is given
  std::uint64_t seed = 1337;
  bool shuffle = true;
  TokenFormat format = TokenFormat::automatic;
};

struct EvaluationSpec {
  Size every = 0;              // steps between evaluations; 0: never
  Size tokens = 0;             // tokens of one evaluation; 0: all of data.val
  EvaluationBatches own = {};  // replaces data.val if it has a function
};

// The state from which a start continues.
enum class Resume {
  automatic,  // the run's newest valid state; a new run if it has none
  never,      // no state: always a new run
  folder,     // the checkpoint that checkpoint.resume names, even if it belongs to another run
};

// Made by resolve(). What the program gives as functions is added by lt::Trainer: own evaluation batches, the groups of
// own optimizers, own_schedule and console.
struct Resolved {
  Config config;                                   // complete: with all derived values
  std::optional<nn::TransformerSpec> transformer;  // complete; nullopt for a user-defined model
  WeightsConfig weights;
  DataSpec data;
  ParallelOptions parallel;
  CommBackend backend = CommBackend::automatic;
  Precision precision = Precision::f32;
  EngineOptions step;    // for device index 0; each rank of a host sets its own index
  Size given_accum = 1;  // train.accum as given; step.accum may follow from train.global_batch instead
  OptimizerGroups optimizers{{}, 0, 0};
  Schedule schedule;
  double max_minutes = 0;   // minutes of training, per start; 0 disables the limit
  Size skip_nonfinite = 0;  // steps in a row that may have no update because loss or norm is not finite
  EvaluationSpec evaluation;
  Size sample_every = 0;        // steps; 0: never
  CheckpointConfig checkpoint;  // `dir` is not empty
  Resume resume = Resume::automatic;
  RecordConfig record;
  WatchdogOptions watchdog;
  RunConfig run;
  std::function<double(Size step)> own_schedule = {};       // replaces `schedule`, except for its `steps`
  std::function<void(std::string_view line)> console = {};  // takes the console's lines; empty: standard output

  double learning_rate(Size number) const { return own_schedule ? own_schedule(number) : schedule.at(number); }
  bool has_adapters() const { return transformer && transformer->lora.rank > 0; }
  // Number of steps of the run. If data.epochs is set, it is known only after the run has opened its files.
  Size steps() const { return schedule.steps; }
  void set_steps(Size steps) { schedule.steps = config.train.steps = steps; }
  BatchShape batch_shape(int rank, int ranks) const {
    return {step.micro_batch, step.accum, step.seq, rank, ranks, is_elastic(config)};
  }
};

// Decides every value that `config` leaves open, for this number of ranks: the shape of the model from model.from or
// the preset, train.accum from train.global_batch, other values from other keys, and train.device=auto from
// `automatic`, the device of the machine. Throws UsageError (component "config") that names the key, and DataError for
// a broken folder in model.from.
Resolved resolve(const Config& config, int ranks, DeviceType automatic);
inline Resolved resolve(const Config& config, int ranks) { return resolve(config, ranks, best_device()); }

// Makes the model of the row that the configuration names, or else the transformer. Throws UsageError if the row's
// function fails.
std::unique_ptr<nn::Model> make_model(const Resolved& resolved);

}  // namespace lt
