// Checks of an optimizer's row.
#include "optim/row.h"

#include <algorithm>

#include "libtrain/error.h"
#include "libtrain/shard_map.h"

namespace lt {

void require_whole(const Optimizer& row) {
  const auto require = [&](bool holds, const std::string& expected) {
    if (!holds) throw UsageError("optim", "optimizer \"" + row.name + "\": " + expected);
  };
  require(!row.name.empty(), "name: expected one, found none");
  require(static_cast<bool>(row.update), "update: expected a function, found none");
  require(row.betas.size() <= static_cast<std::size_t>(kMaxBetas),
          "betas: expected at most " + std::to_string(kMaxBetas) + ", found " + std::to_string(row.betas.size()));
  for (const float beta : row.betas) {
    require(beta >= 0 && beta < 1, "betas: expected numbers of [0, 1), found " + std::to_string(beta));
  }
  for (auto state = row.states.begin(); state != row.states.end(); ++state) {
    require(is_kind_name(*state),
            "states: expected names of 1 to 32 of a to z, 0 to 9 and _, found \"" + *state + "\"");
    require(*state != kMaster, "states: expected names beside \"master\", which the weights have");
    require(std::find(row.states.begin(), state, *state) == state, "states: expected each once, found " + *state);
  }
}

}  // namespace lt
