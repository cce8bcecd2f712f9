// Completes the record of a run that was killed between its last checkpoint and its event `end`.
#pragma once

#include "run/run.h"

namespace lt::run {

// For a start that finds the run complete. Writes the event `checkpoint` of the last checkpoint and the event `end` if
// metrics.jsonl lacks them. Writes nothing if metrics.jsonl has later steps than the loaded state.
void complete_record(Run& run);

}  // namespace lt::run
