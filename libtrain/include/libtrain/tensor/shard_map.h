// ShardMap: which rank owns which flat range of which tensor. The engine makes it and checkpoints read it; neither
// depends on the other. A range counts elements in the parameter's own row-major order, never offsets in a padded
// buffer. So files that were written under one strategy and rank count can be read under any other.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/tensor/tensor.h"

namespace LT_API lt {

// The kinds of state are kMaster (master weights) and the names in Optimizer::states. A name has 1 to 32 characters
// from a to z, 0 to 9 and _, because checkpoint files use it as the name of an HDF5 group.
inline constexpr const char* kMaster = "master";
// The moving average of the master weights, in runs that keep one.
inline constexpr const char* kAverage = "ema";

inline constexpr std::size_t kMaxKinds = 32;  // including kMaster

inline bool is_kind_name(std::string_view name) {
  const auto is_allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), is_allowed);
}

// A kind of state and the dtype of its values. `partial` is true if some parameters do not have this state, because
// they are frozen or have another optimizer.
struct StateKind {
  std::string name;
  DType dtype = DType::f32;
  bool partial = false;

  StateKind() = default;
  StateKind(std::string name_, DType dtype_ = DType::f32) : name(std::move(name_)), dtype(dtype_) {}
  StateKind(const char* name_) : name(name_) {}
  bool operator==(const StateKind&) const = default;
};

inline constexpr DType kStateDTypes[] = {DType::f32, DType::bf16, DType::f16};

constexpr bool is_state_dtype(DType dtype) {
  return std::find(std::begin(kStateDTypes), std::end(kStateDTypes), dtype) != std::end(kStateDTypes);
}

// Finds one of kStateDTypes by its dtype_name(). Returns nullopt if there is none.
inline std::optional<DType> find_state_dtype(std::string_view name) {
  const auto found = std::find_if(std::begin(kStateDTypes), std::end(kStateDTypes),
                                  [&](DType dtype) { return dtype_name(dtype) == name; });
  return found == std::end(kStateDTypes) ? std::nullopt : std::optional(*found);
}

struct ParameterInfo {
  std::string name = {};
  Shape shape = {};
};

// Elements [begin, end) of `parameter` in one kind of state. `values` is flat and has end - begin elements, in the
// kind's dtype or a narrower one. Saving widens narrower values.
struct StateRange {
  std::string parameter = {};
  std::string kind = {};
  Size begin = 0, end = 0;
  Tensor values = {};
};

struct ShardMap {
  std::vector<ParameterInfo> parameters = {};  // all parameters of the model, the same on every rank
  std::vector<StateRange> owned = {};          // ranges that this rank saves; all ranks together save each element once
  std::vector<StateRange> needed = {};         // ranges that this rank loads: all that it holds, replicas included
  std::vector<StateKind> kinds = {kMaster};    // all kinds that occur, masters first; at most kMaxKinds
};

}  // namespace lt
