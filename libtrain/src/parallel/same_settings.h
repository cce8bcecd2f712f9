// Compares what an engine is made of on all ranks before it is made: ranks that average other batches or draw other
// weights would train a model that nobody asked for, and others would wait for each other for ever.
#pragma once

#include "libtrain/parallel/engine.h"

namespace lt::parallel {

// Every rank of the group must call it. Throws UsageError on all ranks, with the first setting that differs: an option,
// a pattern or number of the optimizers, or a parameter. What an optimizer's functions hold is not compared.
void require_same_settings(const nn::Model& model, const Group& world, const ParallelOptions& parallel,
                           const OptimizerGroups& optimizers, const StepOptions& step);

}  // namespace lt::parallel
