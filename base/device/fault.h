// Injects faults for tests, each on one rank at one point of one step:
//   LTRAIN_FAULT=<point>:<rank>:<step>:<action>[,<point>:...]
// The table in fault.cpp lists the points and the actions allowed at each; docs/faults.md explains them. Every action
// except device-sleep strikes once.
#pragma once

#include <cstdint>
#include <string_view>

#include "libtrain/device/device.h"

namespace lt::device {

// Reads LTRAIN_FAULT and arms the faults of `rank`. Without the variable, points do nothing. Throws UsageError for
// unknown values.
void arm_fault(int rank);
// Sets the step that this thread runs, saves or loads.
void set_fault_step(std::int64_t step);
// Ends, stops or delays the process. For enospc and eio it throws DataError, as the failed access would.
void fault_point(std::string_view point);
// For device-sleep. Strikes every time in the step.
void fault_point(std::string_view point, const Stream& stream);
// Whether the caller must write NaN into its result at `point`.
bool fault_makes_nan(std::string_view point);
// Whether the requested allocation must fail.
bool fault_fails_allocation();
// Whether a fault of any rank lies inside this step. Such a step must not be replayed as a graph, since a replay
// reaches no points.
bool fault_in_this_step();
// How often faults have struck since they were armed.
int fault_hits();

}  // namespace lt::device
