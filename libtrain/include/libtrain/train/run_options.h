// Converts a configuration to the options of each component.
#pragma once

#include <memory>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/data/data_source.h"
#include "libtrain/nn/models.h"
#include "libtrain/optim/optimizer_groups.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/train/config.h"

namespace LT_API lt {

// Fills in the model's numbers from the preset, with checks, and every value that follows from other keys or from the
// machine (Config::derived). train.device=auto becomes `automatic`. Throws UsageError.
Config resolve(const Config& config, DeviceType automatic);
inline Config resolve(const Config& config) { return resolve(config, best_device()); }
// Fills in what follows from other keys alone: the fields of a preset, train.seq, optim.min_lr, checkpoint.dir. Throws
// UsageError.
Config with_derived(Config given);
// Sets train.accum from train.global_batch, if that is given, for this number of ranks. Throws UsageError if
// global_batch is not a multiple of ranks x micro_batch, or if a given accum contradicts it.
Config with_accum(Config resolved, int ranks);
// The model of the row that the configuration names, or the transformer. Throws UsageError.
std::unique_ptr<nn::Model> make_model(const Config& resolved);
// Throws UsageError for a model that is no transformer.
nn::TransformerSpec model_spec(const Config& resolved);
// data.sources, or data.train as one source. Empty if the configuration names no training data.
std::vector<DataSource> data_sources(const Config& resolved);
ParallelOptions parallel_options(const Config& resolved);
// The dtype of parameters in use and of activations.
DType compute_dtype(const Config& config);
StepOptions step_options(const Config& resolved);
BatchShape batch_shape(const Config& resolved, int rank, int ranks);
OptimizerGroups optimizers_of(const Config& resolved);
Schedule schedule_options(const Config& resolved);

}  // namespace lt
