// Faults that tests ask for, each of one rank at one point of one step:
//   LTRAIN_FAULT=<point>:<rank>:<step>:<action>[,<point>:...]
// Which points there are, and which actions make sense at each, is the table of fault.cpp; docs/faults.md says what
// each does. All but device-sleep strike once.
#pragma once

#include <cstdint>
#include <string_view>

#include "libtrain/device/device.h"

namespace lt {

// Reads LTRAIN_FAULT; without it points do nothing. Throws UsageError for what it does not know.
void arm_fault(int rank);
// What this thread is at: the step that runs now, or that is being saved or loaded.
void set_fault_step(std::int64_t step);
// Ends, stops or delays the process. For enospc and eio it throws DataError, as the failed write would.
void fault_point(std::string_view point);
// For device-sleep, as long as the step lasts.
void fault_point(std::string_view point, const Stream& stream);
// Whether the caller is to write NaN into what it computed at `point`.
bool fault_makes_nan(std::string_view point);
// Whether the allocation that is asked for is to fail.
bool fault_fails_allocation();
// Whether a fault of any rank lies inside this step: a step that is replayed on the device comes to no points.
bool fault_in_this_step();
// How often faults struck since they were armed.
int fault_hits();

}  // namespace lt
