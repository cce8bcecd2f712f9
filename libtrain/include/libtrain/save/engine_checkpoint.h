// Saves and loads an engine in a program that links the library.
#pragma once

#include <string>

#include "libtrain/api.h"
#include "libtrain/comm/group.h"
#include "libtrain/parallel/engine.h"

namespace LT_API lt {

// Both use the format of docs/checkpoint-format.md, as train() does. All ranks of `group`, which has the engine's
// ranks, must call them. Both throw DataError, and UsageError for a model with adapters (model.lora), which train()
// saves.
// save() returns the step's folder and keeps the newest `keep` (at least 2) checkpoints of this run. The run is the one
// that load() found, or a new one that begins with the first save. Checkpoints of version 1, which have no id, count as
// its own. If the folder holds another run's, it throws UsageError before anything is written. `tokenizer` is the text
// of a tokenizer.json for `ltrain sample` and `export`; it may be empty.
// load() takes the newest valid step of `directory`, whatever strategy and rank count wrote it, and reports on standard
// error why it skipped one. It returns false if there is no step, and throws DataError if there are some, of which none
// is valid. The learning rate is not part of a checkpoint: a program that sets it sets it again.
std::string save(Engine& engine, const std::string& directory, const Group& group, int keep = 3,
                 const std::string& tokenizer = "");
bool load(Engine& engine, const std::string& directory, const Group& group);

}  // namespace lt
