// A whole training run as `ltrain train` does it: run folder, data, engine, resuming, evaluation, checkpoints, metrics.
#pragma once

#include <string>

#include "libtrain/config.h"
#include "libtrain/world.h"

namespace lt {

// Trains until train.steps or train.max_minutes. `command` is written to env.json. All ranks call it.
// Throws UsageError, DataError, CommError, NonFiniteError.
void train(const Config& config, const World& world, const std::string& command);

}  // namespace lt
