// The whole program `ltrain`, for models of one's own.
#pragma once

#include "libtrain/api.h"
#include "libtrain/train/model_table.h"

namespace LT_API lt {

// For main(), which returns its result: the commands, keys, log lines, files and exit codes of `ltrain`, for the models
// of the table. `ltrain` is this call with `.transformers = true`. Without transformers the commands that only they
// have are left out: sample, eval, `bench kernels` and `bench rates`. A table whose rows contradict each other is a
// usage error.
int cli(int argc, char** argv, ModelTable models);

}  // namespace lt
