// The whole program `ltrain`, for models of one's own.
#pragma once

#include "libtrain/api.h"
#include "libtrain/config/model_table.h"

namespace LT_API lt {

// For main(), which returns its result: the program `ltrain` for the models of the table, with its keys, log lines,
// files and exit codes. `ltrain` is this call with `.transformers = true`. Without transformers a program does not have
// the commands that need one: sample, eval, `plan --sample`, `bench kernels`, `bench rates`, `checkpoint export` and
// `checkpoint import`. A table whose rows contradict each other is a usage error.
int cli(int argc, char** argv, ModelTable models);

}  // namespace lt
