// Loads the newest whole checkpoint, and checks what a checkpoint holds.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"

namespace lt::checkpoint {

// Throws DataError, which names the first difference, if the checkpoint's parameters differ from `parameters`.
void require_parameters(const std::string& step_directory, const std::vector<ParameterInfo>& parameters);

// Returns, by parameter name, the kind of state that holds the requested `weights`, kMaster or kAverage. Frozen
// parameters have no average, so kMaster replaces it. Throws DataError if the checkpoint lacks the kind, or lacks it
// for a parameter that has other states, or if the average is requested before the first update.
std::unordered_map<std::string, std::string> weight_kinds(const std::string& step_directory,
                                                          const std::string& weights);

struct Loaded {
  std::string folder;  // empty: no candidate was valid
  RunState state;
  bool tried = false;  // a load was attempted; if it failed, the tensors' contents are undefined
};
// Loads the first valid one of rank 0's `candidates`. All ranks must call it. Appends to rank 0's `notes` why it
// skipped others. Throws DataError if a checkpoint is of another model or optimizer.
Loaded load_newest(const std::vector<Listing>& candidates, const ShardMap& shards, const Group& group,
                   std::vector<std::string>* notes);

}  // namespace lt::checkpoint
