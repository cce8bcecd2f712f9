// A whole training run, as in `ltrain train`: run folder, data, engine, resuming, evaluation, checkpoints, metrics.
#pragma once

#include <string>

#include "libtrain/comm/world.h"
#include "libtrain/error.h"
#include "libtrain/train/config.h"

namespace lt {

// Trains until train.steps or train.max_minutes, and returns ExitCode::ok. If any rank receives a SIGTERM, SIGUSR1 or
// SIGINT, all ranks stop after the same step, save its state, and return ExitCode::restart. While it runs, it handles
// those signals and ignores SIGPIPE; on return it restores the program's handlers. `command` is written to env.json.
// All ranks must call it. Throws UsageError, DataError, CommError, NonFiniteError.
ExitCode train(const Config& config, const World& world, const std::string& command);

}  // namespace lt
