// Decides the values of a run's configuration that depend on files: dtype and global batch of the state from which it
// continues, and the number of steps of data.epochs.
#pragma once

#include <string>

#include "libtrain/comm/group.h"
#include "libtrain/config/resolved.h"

namespace lt::run {

// Keeps values of the state from which the run would continue, so that its losses continue as they were. If train.dtype
// is auto, sets it to the dtype of that state. If an elastic run is given no train.global_batch, sets it to the global
// batch of that state, which then determines train.accum, even if that is given. Does nothing for a start that
// continues from none. Rank 0 reads the files. All ranks must call it. Throws DataError if run.json cannot be read.
void keep_values(Config& config, const Group& group);

// Returns the samples of a step of the state from which an elastic run would continue; 0 if it continues from none.
// Throws DataError if run.json cannot be read.
Size kept_global_batch(const Config& config);

// Returns the samples of a step of the run that saved the checkpoint in `step_directory`. `saved`: its configuration.
// Throws DataError if the manifest cannot be read.
Size global_batch_of(const Config& saved, const std::string& step_directory);

// Like resolve(), but also sets the number of steps from data.epochs. Throws UsageError and DataError.
Resolved resolve_run(const Config& given, int ranks);

}  // namespace lt::run
