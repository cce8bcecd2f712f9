// Compares the settings of an engine on all ranks before it is made. Ranks with different batches or seeds would train
// a wrong model; ranks with different collectives would wait for each other for ever.
#pragma once

#include "libtrain/parallel/engine.h"

namespace lt::parallel {

// Every rank of the group must call it. Throws UsageError on all ranks, naming the first setting that differs: an
// option, a pattern or number of the optimizers, or a parameter. Does not compare the data inside an optimizer's
// functions.
void require_same_settings(const nn::Model& model, const Group& world, const ParallelOptions& parallel,
                           const OptimizerGroups& optimizers, const EngineOptions& step);

}  // namespace lt::parallel
