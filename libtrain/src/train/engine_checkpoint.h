// Fills an engine from checkpoints.
#pragma once

#include <string>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/parallel/engine.h"

namespace lt {

// The engine's own part of a run's state: ids, step, data position, loss scale.
checkpoint::RunState state_of(const Engine& engine);

// That of a run in another dtype, 1 and no counts, changes nothing.
void restore_loss_scale(Engine& engine, const LossScale& scale);

// Masters, m, v and that state, but for the ids, of the first of rank 0's `candidates` that is whole; all ranks of
// `group` call it. Where none is whole (an empty folder is returned) the engine's state is the initial one. Why others
// were passed over is appended to rank 0's `notes`. Throws DataError.
checkpoint::Loaded load_engine(Engine& engine, const std::vector<checkpoint::Listing>& candidates, const Group& group,
                               std::vector<std::string>* notes);
// The masters alone.
checkpoint::Loaded load_weights(Engine& engine, const std::vector<checkpoint::Listing>& candidates, const Group& group,
                                std::vector<std::string>* notes);

}  // namespace lt
