// Decides the values of a run's configuration that depend on files: the dtype of its checkpoint, and the number of
// steps of data.epochs.
#pragma once

#include "libtrain/config/resolved.h"

namespace lt::run {

// Like resolve(), but train.dtype=auto is the dtype of the checkpoint from which the run continues, if there is one,
// and data.epochs sets the number of steps. Throws UsageError and DataError.
Resolved resolve_run(const Config& given, int ranks);

}  // namespace lt::run
