// Injects faults for tests, each on one rank at one point of one step:
//   LTRAIN_FAULT=<point>:<rank>:<step>:<action>[,<point>:...]
// The table in fault.cpp lists the points and the actions allowed at each; docs/reference/faults.md explains them.
// Every fault strikes once, except with the action device-sleep.
#pragma once

#include <cstdint>
#include <string_view>

#include "libtrain/device/device.h"

namespace lt::device {

// Reads LTRAIN_FAULT and arms the faults of `rank`. Without the variable, fault points do nothing. Throws UsageError
// for unknown values.
void arm_fault(int rank);
// Sets the step that this thread runs, saves or loads.
void set_fault_step(std::int64_t step);
// Applies this rank's fault at `point`, if there is one in the current step: ends, stops or delays the process. For
// enospc and eio, throws DataError like the failed access.
void fault_point(std::string_view point);
// Like fault_point(), but for the action device-sleep: delays `stream`, each time that the step reaches the point.
void fault_point(std::string_view point, const Stream& stream);
// True if the caller must write NaN into its result at `point`.
bool fault_makes_nan(std::string_view point);
// True if the requested allocation must fail.
bool fault_fails_allocation();
// True if a fault of any rank lies inside this step. Such a step must not be replayed as a graph, because a replay
// reaches no fault points.
bool fault_in_this_step();
// Returns how often faults have struck since they were armed.
int fault_hits();

}  // namespace lt::device
