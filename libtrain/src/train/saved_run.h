// What a saver takes of a run.
#pragma once

#include "train/run.h"
#include "train/saver.h"

namespace lt {

// The run must outlive the saver.
SavedRun saved_run(Run& run);

}  // namespace lt
