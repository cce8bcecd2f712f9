// Saves and loads the state of an engine, for programs that run their own training loop.
#pragma once

#include <optional>
#include <string>

#include "libtrain/api.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/comm/group.h"
#include "libtrain/parallel/engine.h"

namespace LT_API lt {

// Both functions use the format of docs/reference/checkpoint-format.md, as train() does. `group` must have the engine's
// ranks, and all of them must call the function. Both throw UsageError for a model with adapters (model.lora); only
// train() can save adapters.

// Options of save().
struct EngineSaveOptions {
  int keep = 3;                // number of this run's newest checkpoints to keep; below 2 means 2
  std::string tokenizer = {};  // text of a tokenizer.json for `ltrain sample` and `export`; may be empty
  State state = {};            // the program's own state; that of rank 0 is saved
};

// Saves the engine's state under `directory` and returns the step's folder. Removes older checkpoints of this run. The
// run is that of the loaded checkpoint; without load(), the first save() begins a new run. Throws UsageError, before it
// writes anything, if the folder holds another run's checkpoint, and for a state that breaks a rule of lt::State.
// Throws DataError if it fails, and if the folder holds another state of this step; earlier checkpoints then stay
// intact.
std::string save(Engine& engine, const std::string& directory, const Group& group,
                 const EngineSaveOptions& options = {});

// Loads the newest valid step of `directory`; any strategy and rank count may have written it. Reports on standard
// error why it skipped a step. Returns the program's state on every rank, empty if the checkpoint has none; nullopt if
// there is no step. Throws DataError if there are steps but none is valid, or if a step that it tries has another model
// or optimizer. A checkpoint does not hold the learning rate: a program that sets it must set it again.
std::optional<State> load(Engine& engine, const std::string& directory, const Group& group);

}  // namespace lt
