// Whether the disk has room for the checkpoints that a run will write, which is known before its first step.
#pragma once

#include <string>

#include "libtrain/config/resolved.h"
#include "libtrain/parallel/engine.h"

namespace lt::saver {

// Bytes of a checkpoint: its values, and for each range of them 1 KiB for the file's and the manifest's description.
// All ranks of `group` must call it.
Size checkpoint_bytes(const Engine& engine, const Group& group);

// How many checkpoints a run in its state after `steps_done` steps adds, at most, to the `present` ones of its own
// before it removes any.
Size most_new_checkpoints(const CheckpointConfig& checkpoint, Size steps, Size steps_done, Size present);

// Compares the free bytes where checkpoint.dir is with those of `count` checkpoints of `bytes` each. Returns a warning
// if they do not fit, otherwise an empty text. Throws DataError if a run that `is_new` has no room for one of them. A
// run that goes on only warns, because its saves are tried again and there may be room by then.
std::string require_room(const std::string& dir, Size bytes, Size count, bool is_new);

}  // namespace lt::saver
