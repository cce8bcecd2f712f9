// Waits for a collective of a step and counts the exposed time.
#pragma once

#include <optional>

#include "device/fault.h"
#include "libtrain/comm/group.h"
#include "profile/activity_clock.h"

namespace lt::parallel {

// Waits if `work` is pending, counts the time as `activity`, and passes the fault point `collective`. A time point
// costs a CUDA graph more than a microsecond, so a collective of one rank has no time points and no span.
inline void wait_exposed(Work& work, Activity activity) {
  if (!work.pending()) return;
  std::optional<profile::ActivityScope> scope;
  if (work.has_peers()) scope.emplace(activity);
  device::fault_point("collective");
  work.wait();
}

}  // namespace lt::parallel
