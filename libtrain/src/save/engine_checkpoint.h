// Fills an engine from checkpoints.
#pragma once

#include <string>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/parallel/engine.h"

namespace lt::checkpoint {
class BaseWeights;
}

namespace lt::saver {

// What a checkpoint of the engine holds: the whole shard map, or of a model with adapters their part alone.
ShardMap saved_state(const Engine& engine);

// The part of a run's state that the engine knows, with its loss scale: ids, step, data position.
checkpoint::RunState state_of(const Engine& engine, const LossScale& scale);

// The engine goes on with `saved`. In f16 the scale begins anew if a run in another dtype has saved it: as 1, with no
// steps.
void restore_loss_scale(Engine& engine, const LossScale& saved);

// Loads the weights, all optimizer states, step, data position and loss scale, but not the ids, from the first complete
// one of rank 0's `candidates`. All ranks of `group` must call it. If no candidate is complete, it returns an empty
// folder, with the engine in its initial state. Appends to rank 0's `notes` why it skipped a candidate. Throws
// DataError.
checkpoint::Loaded load_engine(Engine& engine, const std::vector<checkpoint::Listing>& candidates, const Group& group,
                               std::vector<std::string>* notes);
// Loads the masters only.
checkpoint::Loaded load_weights(Engine& engine, const std::vector<checkpoint::Listing>& candidates, const Group& group,
                                std::vector<std::string>* notes);

// Fills the weights beneath the adapters; each rank reads what it holds. All ranks of `group` must call it.
void load_base(Engine& engine, const checkpoint::BaseWeights& base, const Group& group);

// Fills the masters from a folder in Hugging Face's format; each rank reads what it holds. All ranks of `group` must
// call it. Throws DataError if the folder is broken or of another model.
void load_hf_weights(Engine& engine, const std::string& folder, const Group& group);

}  // namespace lt::saver
