// Checks before the first step whether the disk has enough free space for the checkpoints that a run will write.
#pragma once

#include <string>

#include "libtrain/config/resolved.h"
#include "libtrain/parallel/engine.h"

namespace lt::saver {

// The bytes of a checkpoint: its values, and 1 KiB for each range of values, for its description in the file and the
// manifest. All ranks of `group` must call it.
Size checkpoint_bytes(const Engine& engine, const Group& group);

// The largest number of checkpoints that a run adds after `steps_done` steps to its `present` ones before it removes
// any.
Size most_new_checkpoints(const CheckpointConfig& checkpoint, Size steps, Size steps_done, Size present);

// Compares the free bytes of checkpoint.dir's file system with `count` checkpoints of `bytes` each. Returns a warning
// if they do not fit, otherwise an empty text. If `is_new`, throws DataError if not even one checkpoint fits. A
// continued run only gets a warning, because failed saves are retried and space may be freed by then.
std::string require_space(const std::string& dir, Size bytes, Size count, bool is_new);

}  // namespace lt::saver
