// The engine's queries about groups of parameters.
#pragma once

#include <string>
#include <vector>

#include "libtrain/optim/optimizer_groups.h"

namespace lt::optim {

// The properties of a parameter that decide its group.
struct GroupMember {
  std::string name;
  bool is_block_matrix = false;  // a matrix of a block; optimizers of matrices update only such parameters
};

// Throws UsageError if `groups` break a rule of OptimizerGroups for a model with these parameters.
void require_whole(const OptimizerGroups& groups, const std::vector<GroupMember>& parameters);

bool is_frozen(const OptimizerGroups& groups, const std::string& parameter);

// Returns the group of a parameter that is not frozen. Throws UsageError if no group matches.
std::size_t group_of(const OptimizerGroups& groups, const GroupMember& parameter);

// Returns the dtype of the weights that the optimizers update, for the compute dtype `compute`. Throws UsageError if a
// group has no master weights and `compute` is not bf16.
DType weight_dtype(const OptimizerGroups& groups, DType compute);

// Returns the kinds of state of all groups that have at least one of `parameters`, in the order of the groups. A kind
// is partial if some parameter lacks it.
std::vector<StateKind> state_kinds(const OptimizerGroups& groups, const std::vector<GroupMember>& parameters);

}  // namespace lt::optim
