// A sharding strategy is three placements, and the time at which gathered parameters are freed. The engine reads these;
// names carry no meaning.
// ZeRO: Rajbhandari et al. 2020; FSDP: Zhao et al. 2023.
#pragma once

#include <string>
#include <string_view>

#include "libtrain/api.h"

namespace LT_API lt {

// How a group of ranks holds one kind of state: whole on every rank, or one contiguous part on each.
enum class Placement : unsigned char { replicated, sharded };

struct Strategy {
  std::string_view name;
  Placement parameters, gradients, optimizer;
  // True: a unit with sharded parameters is freed after its forward pass and gathered again for its backward pass.
  // False: it stays gathered until then.
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
    // name   parameters   gradients    optimizer state; reshard_after_forward, where it is false
    {"ddp",   kReplicated, kReplicated, kReplicated},
    {"zero1", kReplicated, kReplicated, kSharded},
    {"zero2", kReplicated, kSharded,    kSharded},
    {"zero3", kSharded,    kSharded,    kSharded},
};
// clang-format on
inline constexpr Strategy Strategy::ddp = kStrategies[0], Strategy::zero1 = kStrategies[1],
                          Strategy::zero2 = kStrategies[2], Strategy::zero3 = kStrategies[3];

// Throws UsageError that lists the strategies.
const Strategy& find_strategy(std::string_view name);

}  // namespace lt
