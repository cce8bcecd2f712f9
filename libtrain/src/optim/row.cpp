// Checks an optimizer's row field by field.
#include "optim/row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "libtrain/error.h"
#include "libtrain/tensor/shard_map.h"

namespace lt::optim {

void require_whole(const Optimizer& row) {
  const auto require = [&](bool holds, const std::string& expected) {
    if (!holds) throw UsageError("optim", "optimizer \"" + row.name + "\": " + expected);
  };
  require(!row.name.empty(), "name: expected one, found none");
  const bool has_matrices = row.matrices && row.matrices->begin && row.matrices->transform &&
                            row.matrices->workspace_bytes && row.matrices->end && row.matrices->flops;
  require(row.matrices || row.update, "update: expected a function, found none");
  require(!row.matrices || !row.update, "update: expected none with matrices, found one");
  require(!row.matrices || has_matrices, "matrices: expected all functions, found some missing");
  require(row.betas.size() <= static_cast<std::size_t>(kMaxBetas),
          "betas: expected at most " + std::to_string(kMaxBetas) + ", found " + std::to_string(row.betas.size()));
  for (const float beta : row.betas) {
    require(beta >= 0 && beta < 1, "betas: expected numbers in [0, 1), found " + std::to_string(beta));
  }
  for (auto state = row.states.begin(); state != row.states.end(); ++state) {
    const std::string& name = state->name;
    require(is_kind_name(name), "states: expected names of 1 to 32 of a to z, 0 to 9 and _, found \"" + name + "\"");
    require(name != kMaster, "states: expected names other than \"master\", which is the weights'");
    require(state->dtype == DType::f32 || state->dtype == DType::bf16,
            "states: expected f32 or bf16, found " + name + " of " + std::string(dtype_name(state->dtype)));
    const auto is_same = [&](const StateKind& other) { return other.name == name; };
    require(std::find_if(row.states.begin(), state, is_same) == state, "states: expected each once, found " + name);
  }
}

std::string expected_from_0(double value) {
  if (!(value >= 0) || !std::isfinite(value)) return "a finite number from 0 on";
  const float rounded = static_cast<float>(value);
  if (value == 0 || (rounded > 0 && std::isfinite(rounded))) return {};
  return fmt::format("a number that f32 does not round to {}", rounded == 0 ? "0" : "infinity");
}

void require_from_0(const std::string& field, double value, const std::string& what) {
  const std::string expected = expected_from_0(value);
  if (!expected.empty()) throw UsageError("optim", field, what + expected, fmt::format("{}", value));
}

bool rounds_stochastically(const Optimizer& row) {
  const auto is_bf16 = [](const StateKind& state) { return state.dtype == DType::bf16; };
  return !row.masters || std::any_of(row.states.begin(), row.states.end(), is_bf16);
}

}  // namespace lt::optim
