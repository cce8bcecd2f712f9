// Saving and loading an engine in a program that links the library.
#pragma once

#include <string>

#include "libtrain/comm/group.h"
#include "libtrain/parallel/engine.h"

namespace lt {

// In the format of docs/checkpoint-format.md, as train() does it. All ranks of `group`, that of the engine, call both.
// save() returns the step's folder and keeps the newest `keep` (at least 2) of this run: the one that load() found, or
// one that begins with the first save. Checkpoints of version 1, without an id, count as its own; where another run's
// are, it throws UsageError before anything is written. `tokenizer` is the text of the
// tokenizer.json that `ltrain sample` and `export` take from the checkpoint, where it is given. load() takes the newest
// valid step of `directory`, whatever strategy and rank count wrote it, and says on standard error why it passed one
// over; false where there is none. Both throw DataError.
std::string save(Engine& engine, const std::string& directory, const Group& group, int keep = 3,
                 const std::string& tokenizer = "");
bool load(Engine& engine, const std::string& directory, const Group& group);

}  // namespace lt
