// Makes a saver's view of a run.
#pragma once

#include "run/run.h"
#include "save/saver.h"

namespace lt::run {

// The run must outlive the saver.
saver::SavedRun saved_run(Run& run);

}  // namespace lt::run
