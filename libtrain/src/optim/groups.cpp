// Matches parameters with the patterns of groups, and checks the groups against a model.
#include "optim/groups.h"

#include <algorithm>
#include <set>

#include "libtrain/error.h"
#include "optim/row.h"

namespace lt::optim {
namespace {

// Members of OptimizerGroups.
constexpr const char *kGroups = "groups", *kFrozen = "frozen", *kTrained = "trained";

[[noreturn]] void refuse(const char* field, const std::string& expected, const std::string& actual,
                         const std::string& hint = "") {
  throw UsageError("optim", field, expected, actual, hint);
}

void require_match(const char* field, const std::string& pattern, const std::vector<GroupMember>& parameters) {
  const auto is_matched = [&](const GroupMember& parameter) { return matches(pattern, parameter.name); };
  if (std::any_of(parameters.begin(), parameters.end(), is_matched)) return;
  const std::string some = parameters.empty() ? "none" : parameters.front().name + ", ..., " + parameters.back().name;
  refuse(field, "parameters that match \"" + pattern + '"', "none", "parameters of the model: " + some);
}

}  // namespace

void require_whole(const OptimizerGroups& groups, const std::vector<GroupMember>& parameters) {
  if (groups.groups.empty() || static_cast<int>(groups.groups.size()) > kMaxOptimizerGroups) {
    refuse(kGroups, "1 to " + std::to_string(kMaxOptimizerGroups), std::to_string(groups.groups.size()));
  }
  require_from_0("lr", groups.lr);
  require_from_0("clip", groups.clip);
  for (const OptimizerGroup& group : groups.groups) {
    require_from_0(kGroups, group.lr_scale, "an lr_scale that is ");
    require_whole(group.optimizer);
    if (group.optimizer.masters != groups.groups[0].optimizer.masters) {
      refuse(kGroups, "masters in all of them or in none", "both");
    }
  }
  for (const OptimizerGroup& group : groups.groups) require_match(kGroups, group.match, parameters);
  for (const std::string& pattern : groups.frozen) require_match(kFrozen, pattern, parameters);
  for (const std::string& pattern : groups.trained) require_match(kTrained, pattern, parameters);
  const auto frozen = [&](const GroupMember& parameter) { return is_frozen(groups, parameter.name); };
  if (std::all_of(parameters.begin(), parameters.end(), frozen))
    refuse(kFrozen, "a parameter that is not frozen", "none");
  std::set<std::size_t> used;
  for (const GroupMember& parameter : parameters) {
    if (!frozen(parameter)) used.insert(group_of(groups, parameter));
  }
  // Whether `first` is an optimizer of matrices and the next group, with the same pattern, takes the parameters it
  // leaves.
  const auto is_pair = [&](std::size_t first) {
    return first + 1 < groups.groups.size() && groups.groups[first].optimizer.matrices &&
           groups.groups[first].match == groups.groups[first + 1].match;
  };
  for (std::size_t i = 0; i < groups.groups.size(); ++i) {
    const std::string& match = groups.groups[i].match;
    const bool is_last = i + 1 == groups.groups.size(), of_matrices = groups.groups[i].optimizer.matrices.has_value();
    const bool takes_rest = match == "*" && (is_last || of_matrices);  // if any is left
    const bool partner_is_used =
        (is_pair(i) && used.contains(i + 1)) || (i > 0 && is_pair(i - 1) && used.contains(i - 1));
    if (used.contains(i) || takes_rest || partner_is_used) continue;
    const std::string what = of_matrices && !is_pair(i) ? "matrices of blocks" : "parameters";
    refuse(kGroups, what + " that match \"" + match + "\" and are neither frozen nor in an earlier group", "none");
  }
  std::vector<StateKind> known;
  for (const StateKind& kind : state_kinds(groups, parameters)) {
    const auto is_same = [&](const StateKind& other) { return other.name == kind.name; };
    if (std::any_of(known.begin(), known.end(), is_same)) refuse(kGroups, "one dtype of " + kind.name, "two");
    known.push_back(kind);
  }
  if (known.size() + 1 > kMaxKinds) {
    refuse(kGroups, "at most " + std::to_string(kMaxKinds - 1) + " kinds of state in all",
           std::to_string(known.size()));
  }
}

DType weight_dtype(const OptimizerGroups& groups, DType compute) {
  if (groups.groups[0].optimizer.masters) return DType::f32;
  if (compute == DType::bf16) return DType::bf16;
  refuse("masters", "true, unless the computation is in bf16", "false with " + std::string(dtype_name(compute)));
}

bool is_frozen(const OptimizerGroups& groups, const std::string& parameter) {
  const auto is_in = [&](const std::vector<std::string>& patterns) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::string& pattern) { return matches(pattern, parameter); });
  };
  return is_in(groups.frozen) || (!groups.trained.empty() && !is_in(groups.trained));
}

std::size_t group_of(const OptimizerGroups& groups, const GroupMember& parameter) {
  for (std::size_t i = 0; i < groups.groups.size(); ++i) {
    const OptimizerGroup& group = groups.groups[i];
    if (group.optimizer.matrices && !parameter.is_block_matrix) continue;
    if (matches(group.match, parameter.name)) return i;
  }
  refuse(kGroups, "one for " + parameter.name, "none", "a last group that matches \"*\" takes the rest");
}

std::vector<StateKind> state_kinds(const OptimizerGroups& groups, const std::vector<GroupMember>& parameters) {
  std::set<std::size_t> used;
  bool any_frozen = false;
  for (const GroupMember& parameter : parameters) {
    if (is_frozen(groups, parameter.name)) {
      any_frozen = true;
    } else {
      used.insert(group_of(groups, parameter));
    }
  }
  std::vector<StateKind> kinds;
  for (const std::size_t i : used) {
    for (const StateKind& state : groups.groups[i].optimizer.states) {
      if (std::find(kinds.begin(), kinds.end(), state) == kinds.end()) kinds.push_back(state);
    }
  }
  for (StateKind& kind : kinds) {
    kind.partial =
        any_frozen || std::any_of(used.begin(), used.end(), [&](std::size_t i) {
          const auto& states = groups.groups[i].optimizer.states;
          return std::none_of(states.begin(), states.end(), [&](const StateKind& s) { return s.name == kind.name; });
        });
  }
  return kinds;
}

}  // namespace lt::optim

namespace lt {

// On a mismatch the last star takes one more character.
bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = pattern.npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++, taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != pattern.npos) {
      p = star + 1, n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace lt
