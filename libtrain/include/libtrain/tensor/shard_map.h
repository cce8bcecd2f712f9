// ShardMap: which rank owns which flat range of which tensor. The engine makes it and checkpoints read it; neither
// knows the other. Ranges count elements of a parameter's own flat (row-major) index, never offsets in a padded buffer,
// so a file of one strategy and rank count can be read under any other.
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

// Kinds of state are names of 1 to 32 characters from a to z, 0 to 9 and _: kMaster, and those of Optimizer::states.
// They are links in a checkpoint's files.
inline constexpr const char* kMaster = "master";
// The moving average of the masters, in runs that keep one.
inline constexpr const char* kAverage = "ema";

inline constexpr std::size_t kMaxKinds = 32;

inline bool is_kind_name(std::string_view name) {
  const auto is_allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), is_allowed);
}

// A kind and the dtype of its values. `partial`: some parameters have none of it, because parameters may have different
// optimizers.
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

// Finds a dtype by its dtype_name(); nullopt if no state can have it.
inline std::optional<DType> find_state_dtype(std::string_view name) {
  const auto found = std::find_if(std::begin(kStateDTypes), std::end(kStateDTypes),
                                  [&](DType dtype) { return dtype_name(dtype) == name; });
  return found == std::end(kStateDTypes) ? std::nullopt : std::optional(*found);
}

struct ParameterInfo {
  std::string name;
  Shape shape;
};

// Elements [begin, end) of `parameter`, held by `values` (flat, end - begin elements) in the kind's dtype or in a
// narrower one, which a file widens.
struct StateRange {
  std::string parameter;
  std::string kind;
  Size begin, end;
  Tensor values;
};

struct ShardMap {
  std::vector<ParameterInfo> parameters;     // all of the model's, the same on every rank
  std::vector<StateRange> owned;             // written by this rank; over all ranks, each element exactly once
  std::vector<StateRange> needed;            // read by this rank on a load: `owned` and its replicas
  std::vector<StateKind> kinds = {kMaster};  // all that occur, masters first; at most kMaxKinds
};

}  // namespace lt
