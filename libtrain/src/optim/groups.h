// Groups of parameters as the engine asks for them.
#pragma once

#include <string>
#include <vector>

#include "libtrain/optim/optimizer_groups.h"

namespace lt {

// A parameter as groups see it.
struct GroupMember {
  std::string name;
  bool is_block_matrix = false;  // what optimizers of matrices are for
};

// Throws UsageError for what OptimizerGroups does not allow of a model with these parameters.
void require_whole(const OptimizerGroups& groups, const std::vector<GroupMember>& parameters);

bool is_frozen(const OptimizerGroups& groups, const std::string& parameter);

// The group of a parameter that is not frozen; throws UsageError where it has none.
std::size_t group_of(const OptimizerGroups& groups, const GroupMember& parameter);

// The dtype of the weights that the optimizers change, for the compute dtype `compute`. Throws UsageError for groups
// without masters and a `compute` other than bf16.
DType weight_dtype(const OptimizerGroups& groups, DType compute);

// The kinds of state of all groups that hold any of `parameters`, in the order of the groups. Partial are those that
// some parameter has none of.
std::vector<StateKind> state_kinds(const OptimizerGroups& groups, const std::vector<GroupMember>& parameters);

}  // namespace lt
