// The activities among which the time of a step is divided: `breakdown_ms` in metrics.jsonl. docs/reference/metrics.md
// explains each of them.
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

// Milliseconds by activity. Their sum is the wall time of the step.
using ActivityTimes = std::array<double, kActivities>;

}  // namespace lt
