// The complete program `ltrain`, for user-defined models.
#pragma once

#include "libtrain/api.h"
#include "libtrain/config/model_table.h"

namespace LT_API lt {

// Runs the program `ltrain` with the models of the table, and returns its exit code; main() must return it. Keys,
// log lines, files and exit codes are the same as in `ltrain`, which itself calls this with `.transformers = true`.
// Without transformers, the program lacks the commands that need one: sample, eval, `plan --sample`, `bench kernels`,
// `bench rates`, `checkpoint export` and `checkpoint import`. If rows of the table contradict each other, it reports a
// usage error and returns 2.
int cli(int argc, char** argv, ModelTable models);

}  // namespace lt
