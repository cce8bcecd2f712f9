// Waits for a collective of a step.
#pragma once

#include <optional>

#include "device/fault.h"
#include "libtrain/comm/group.h"
#include "profile/activity_clock.h"

namespace lt {

// Counts the time as `activity`, if the collective moves anything: each time point of a graph costs the device a
// microsecond or two.
inline void wait_exposed(Work& work, Activity activity) {
  std::optional<ActivityScope> scope;
  if (work.in_flight()) scope.emplace(activity);
  fault_point("collective");
  work.wait();
}

}  // namespace lt
