// Decides the values of a run's configuration that depend on files: the dtype of the state from which it continues, and
// the number of steps of data.epochs.
#pragma once

#include "libtrain/comm/group.h"
#include "libtrain/config/resolved.h"

namespace lt::run {

// If train.dtype is auto, sets it to the dtype of the state from which the run would continue: a run keeps its dtype on
// another device, so that its losses continue as they were. Does nothing for a start that continues from none. Rank 0
// reads the files. All ranks must call it. Throws DataError if run.json cannot be read.
void keep_dtype(Config& config, const Group& group);

// Like resolve(), but also sets the number of steps from data.epochs. Throws UsageError and DataError.
Resolved resolve_run(const Config& given, int ranks);

}  // namespace lt::run
