// From a configuration to the options of each component.
#pragma once

#include "libtrain/nn/models.h"
#include "libtrain/optim/optimizer_groups.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/train/config.h"

namespace lt {

// The configuration with everything derived filled in: the model's numbers from the preset and its checks, seq, min_lr,
// checkpoint.dir; and train.device=auto becomes `automatic`. Throws UsageError.
Config resolve(const Config& config, DeviceType automatic);
inline Config resolve(const Config& config) { return resolve(config, best_device()); }
// The same for that many ranks: train.accum follows from train.global_batch where that is given. Throws UsageError
// where it is no multiple of ranks x micro_batch, or where an accum that is given says otherwise.
Config with_accum(Config resolved, int ranks);
nn::TransformerSpec model_spec(const Config& resolved);
ParallelOptions parallel_options(const Config& resolved);
StepOptions step_options(const Config& resolved);
OptimizerGroups optimizers_of(const Config& resolved);
Schedule schedule_options(const Config& resolved);

}  // namespace lt
