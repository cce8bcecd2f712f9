// Makes a saver's view of a run.
#pragma once

#include "run/run.h"
#include "save/saver.h"

namespace lt::run {

// The run and the program's own state must outlive the saver.
saver::SavedRun saved_run(Run& run, const State& program);

}  // namespace lt::run
