// A sharding strategy: three placements, and when gathered parameters are freed. The engine acts on these members; the
// name carries no meaning. ZeRO: Rajbhandari et al. 2020; FSDP: Zhao et al. 2023.
#pragma once

#include <string>
#include <string_view>

#include "libtrain/api.h"

namespace LT_API lt {

// How a group of ranks holds one kind of state: a complete copy on every rank, or one contiguous shard on each.
enum class Placement : unsigned char { replicated, sharded };

struct Strategy {
  std::string_view name;
  Placement parameters, gradients, optimizer;
  // True: the engine frees a unit's gathered parameters after its forward pass and gathers them again for its backward
  // pass. False: they stay gathered until the end of its backward pass. No effect unless parameters are sharded.
  bool reshard_after_forward = true;

  bool operator==(const Strategy&) const = default;
  constexpr bool shards_nothing() const {
    return parameters == Placement::replicated && gradients == Placement::replicated &&
           optimizer == Placement::replicated;
  }
  static const Strategy ddp, zero1, zero2, zero3;
};

inline constexpr Placement kReplicated = Placement::replicated, kSharded = Placement::sharded;
// clang-format off
inline constexpr Strategy kStrategies[] = {
    // name   parameters   gradients    optimizer state
    {"ddp",   kReplicated, kReplicated, kReplicated},
    {"zero1", kReplicated, kReplicated, kSharded},
    {"zero2", kReplicated, kSharded,    kSharded},
    {"zero3", kSharded,    kSharded,    kSharded},
};
// clang-format on
inline constexpr Strategy Strategy::ddp = kStrategies[0], Strategy::zero1 = kStrategies[1],
                          Strategy::zero2 = kStrategies[2], Strategy::zero3 = kStrategies[3];

// Another name of zero3, PyTorch's. It is accepted wherever a strategy's name is read, and never written.
inline constexpr std::string_view kFsdp = "fsdp";

// Returns the strategy of this name, or zero3 for kFsdp. Throws UsageError, with the known names, if there is none.
const Strategy& find_strategy(std::string_view name);

}  // namespace lt
