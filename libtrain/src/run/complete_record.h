// Completes the record of a run that was killed between its last checkpoint and its event `end`.
#pragma once

#include "run/run.h"

namespace lt::run {

// For a start that finds the run complete. Writes the event `end`, and before it that of the last checkpoint, if
// metrics.jsonl lacks them. Writes nothing if the record goes beyond the state that was loaded.
void complete_record(Run& run);

}  // namespace lt::run
