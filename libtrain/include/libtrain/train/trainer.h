// A whole training run as `ltrain train` does it: run folder, data, engine, resuming, evaluation, checkpoints, metrics.
#pragma once

#include <string>

#include "libtrain/comm/world.h"
#include "libtrain/error.h"
#include "libtrain/train/config.h"

namespace lt {

// Trains until train.steps or train.max_minutes, and returns ExitCode::ok; or until a SIGTERM, SIGUSR1 or SIGINT comes
// to any rank: then all ranks stop after the same step, its state is saved, and it returns ExitCode::restart. It has
// those signals for as long as it runs, and SIGPIPE is ignored; the program's own handlers are back when it returns.
// `command` is written to env.json. All ranks call it. Throws UsageError, DataError, CommError, NonFiniteError.
ExitCode train(const Config& config, const World& world, const std::string& command);

}  // namespace lt
