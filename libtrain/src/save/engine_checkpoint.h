// Loads an engine's state from checkpoints and from folders in Hugging Face's format.
#pragma once

#include <string>
#include <vector>

#include "checkpoints/format/load.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/parallel/engine.h"

namespace lt::checkpoint {
class BaseWeights;
}

namespace lt::saver {

// Returns the state that a checkpoint of the engine holds: the whole shard map, or only the adapters' part of it if the
// model has adapters.
ShardMap saved_state(const Engine& engine);

// Returns the fields of a run's state that the engine knows: ids, step, data position, and the given loss scale.
checkpoint::RunState state_of(const Engine& engine, const LossScale& scale);

// Sets the engine's loss scale to `saved`. If a run in another dtype than f16 has saved it (scale 1, no steps), uses
// the initial scale of f16 instead.
void restore_loss_scale(Engine& engine, const LossScale& saved);

// Loads the weights, all optimizer states, step, data position and loss scale, but not the ids, from the first complete
// one of rank 0's `candidates`. If no candidate is complete, returns an empty folder and leaves the engine in its
// initial state. Appends to rank 0's `notes` why it skipped a candidate. All ranks of `group` must call it. Throws
// DataError.
checkpoint::Loaded load_engine(Engine& engine, const std::vector<checkpoint::Listing>& candidates, const Group& group,
                               std::vector<std::string>* notes);
// Like load_engine(), but loads only the master weights.
checkpoint::Loaded load_weights(Engine& engine, const std::vector<checkpoint::Listing>& candidates, const Group& group,
                                std::vector<std::string>* notes);

// Loads the base weights of a model with adapters. Each rank reads only its part. All ranks of `group` must call it.
void load_base(Engine& engine, const checkpoint::BaseWeights& base, const Group& group);

// Loads the master weights from a folder in Hugging Face's format. Each rank reads only its part. All ranks of `group`
// must call it. Throws DataError if the folder is broken or of another model.
void load_hf_weights(Engine& engine, const std::string& folder, const Group& group);

}  // namespace lt::saver
