// The activities that divide the time of a step: `breakdown_ms` in metrics.jsonl. docs/metrics.md explains each.
#pragma once

#include <array>
#include <string_view>

#include "libtrain/api.h"

namespace LT_API lt {

enum class Activity : unsigned char {
  data,
  forward,
  backward,
  recompute,
  gather_exposed,
  reduce_exposed,
  optimizer,
  checkpoint,
  other,
};
inline constexpr int kActivities = 9;
inline constexpr std::array<std::string_view, kActivities> kActivityNames = {
    "data", "forward", "backward", "recompute", "gather_exposed", "reduce_exposed", "optimizer", "checkpoint", "other"};

// Milliseconds by activity; their sum is the wall time.
using ActivityTimes = std::array<double, kActivities>;

}  // namespace lt
