// Converts parameters of a model to members of optimizer groups.
#pragma once

#include <vector>

#include "libtrain/nn/module.h"
#include "optim/groups.h"
#include "parallel/layout.h"

namespace lt::parallel {

inline optim::GroupMember member_of(const nn::NamedParameter& entry) {
  return {entry.name, entry.parameter->is_block_matrix()};
}
inline optim::GroupMember member_of(const UnitLayout::Range& range) {
  return {range.name, range.parameter->is_block_matrix()};
}

inline std::vector<optim::GroupMember> members_of(const nn::Model& model) {
  std::vector<optim::GroupMember> members;
  for (const nn::NamedParameter& entry : model.all_parameters()) members.push_back(member_of(entry));
  return members;
}

}  // namespace lt::parallel
