// What a run does: the second stage of a configuration, with every value decided and in the type that uses it. What the
// run alone knows follows when it opens: a rank's device, and the number of steps of data.epochs.
#pragma once

#include <memory>
#include <optional>
#include <string>
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

// The training data and the files of evaluations.
struct DataSpec {
  std::vector<DataSource> sources;  // empty: none named
  std::string key;                  // that names the sources: data.train or data.sources
  std::vector<std::string> val;
  Documents documents = Documents::cross;
  double epochs = 0;  // 0: the number of steps is given
  std::uint64_t seed = 1337;
  bool shuffle = true;
  TokenFormat format = TokenFormat::automatic;
};

struct EvaluationSpec {
  Size every = 0;              // steps; 0: never
  Size tokens = 0, steps = 0;  // the extent of one: tokens, or global batches; both 0: all samples
};

// From what a start goes on.
enum class Resume {
  automatic,  // the newest valid state of the run, if it has one
  never,      // nothing: it begins
  folder,     // that of checkpoint.resume, which may be another run's
};

// Made by resolve().
struct Resolved {
  Config config;                                   // its text: with every derived value, and the origins
  std::optional<nn::TransformerSpec> transformer;  // whole; none: a model of the program's own
  WeightsConfig weights;
  DataSpec data;
  ParallelOptions parallel;
  CommBackend backend = CommBackend::automatic;
  Precision precision = Precision::f32;
  StepOptions step;  // on device 0; a rank of several on a host takes its own
  OptimizerGroups optimizers{{}, 0, 0};
  Schedule schedule;
  double max_minutes = 0;  // 0: no limit
  EvaluationSpec evaluation;
  Size sample_every = 0;        // 0: never
  CheckpointConfig checkpoint;  // of a run whose folder is known: `dir` is not empty
  Resume resume = Resume::automatic;
  RecordConfig record;
  WatchdogOptions watchdog;
  RunConfig run;

  bool has_adapters() const { return transformer && transformer->lora.rank > 0; }
  // The steps of the whole run. data.epochs decides them when the files are open.
  Size steps() const { return schedule.steps; }
  void set_steps(Size steps) { schedule.steps = config.train.steps = steps; }
  BatchShape batch_shape(int rank, int ranks) const { return {step.micro_batch, step.accum, step.seq, rank, ranks}; }
};

// Decides what `config` leaves open for this number of ranks: the model's numbers from the preset or model.from,
// train.accum from train.global_batch, and every other value that follows from keys or, as train.device=auto does, from
// the machine (`automatic`). Throws UsageError that names the key (component "config").
Resolved resolve(const Config& config, int ranks, DeviceType automatic);
inline Resolved resolve(const Config& config, int ranks) { return resolve(config, ranks, best_device()); }

// The model of the row that the configuration names, or the transformer. Throws UsageError.
std::unique_ptr<nn::Model> make_model(const Resolved& resolved);

}  // namespace lt
