// Faults that tests ask for, of one rank at one point of one step:
//   LTRAIN_FAULT=<point>:<rank>:<step>:sleep         the rank waits 50 ms, once.
//                                                    Points: data, forward, collective, save-begin
//   LTRAIN_FAULT=<point>:<rank>:<step>:device-sleep  the stream waits 100 ms each time, while the host goes on.
//                                                    Points: gather, reduce, optimizer
#pragma once

#include <cstdint>
#include <string_view>

#include "libtrain/device.h"

namespace lt {

// Reads LTRAIN_FAULT; without it points do nothing. Throws UsageError for what it does not know.
void arm_fault(int rank);
// The step that runs now, or is being saved.
void set_fault_step(std::int64_t step);
void fault_point(std::string_view point);
void fault_point(std::string_view point, const Stream& stream);
// How often the fault struck since it was armed.
int fault_hits();

}  // namespace lt
