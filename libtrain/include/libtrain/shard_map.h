// ShardMap: which rank owns which flat range of which tensor. The engine makes it, checkpoints read it; neither knows
// the other. Ranges are in elements of a parameter's own flat (row-major) index, never offsets in a padded buffer, so a
// file of one strategy and rank count can be read under any other.
#pragma once

#include <string>
#include <vector>

#include "libtrain/tensor.h"

namespace lt {

// The three kinds of state that a checkpoint keeps of each parameter, all f32.
enum class StateKind : std::uint8_t { master, m, v };
inline constexpr std::array<std::string_view, 3> kStateKindNames = {"master", "m", "v"};

struct ParameterInfo {
  std::string name;
  Shape shape;
};

// Elements [begin, end) of `parameter`, which `values` (f32, flat, end - begin elements) holds.
struct StateRange {
  std::string parameter;
  StateKind kind;
  Size begin, end;
  Tensor values;
};

struct ShardMap {
  std::vector<ParameterInfo> parameters;  // all of the model, the same on every rank
  std::vector<StateRange> owned;          // what this rank writes; over all ranks each element exactly once
  std::vector<StateRange> needed;         // what this rank reads on a load: owned, and the replicas it holds besides
};

}  // namespace lt
