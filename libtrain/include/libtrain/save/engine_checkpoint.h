// Saves and loads the state of an engine, for programs that run their own training loop.
#pragma once

#include <string>

#include "libtrain/api.h"
#include "libtrain/comm/group.h"
#include "libtrain/parallel/engine.h"

namespace LT_API lt {

// Both functions use the format of docs/checkpoint-format.md, as train() does. `group` must have the engine's ranks,
// and all of them must call the function. Both throw UsageError for a model with adapters (model.lora); only train()
// can save adapters.

// Saves the engine's state under `directory` and returns the step's folder. Keeps the newest `keep` checkpoints of this
// run, at least 2. The run is that of the loaded checkpoint; without load(), the first save() begins a new run.
// `tokenizer` is the text of a tokenizer.json for `ltrain sample` and `export`; it may be empty. Throws UsageError,
// before it writes anything, if the folder holds another run's checkpoint. Throws DataError if it fails; earlier
// checkpoints then stay intact.
std::string save(Engine& engine, const std::string& directory, const Group& group, int keep = 3,
                 const std::string& tokenizer = "");

// Loads the newest valid step of `directory`; any strategy and rank count may have written it. Reports on standard
// error why it skipped a step. Returns false if there is no step. Throws DataError if there are steps but none is
// valid, or if a step that it tries has another model or optimizer. A checkpoint does not hold the learning rate: a
// program that sets it must set it again.
bool load(Engine& engine, const std::string& directory, const Group& group);

}  // namespace lt
