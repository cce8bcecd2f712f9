// Faults that tests ask for: LTRAIN_FAULT=<point>:<rank>:<step>:sleep makes that rank wait 50 ms when it comes to that
// point of that step. Points: data, forward, collective, save-begin.
#pragma once

#include <cstdint>
#include <string_view>

namespace lt {

// Reads LTRAIN_FAULT; without it points do nothing. Throws UsageError for what it does not know.
void arm_fault(int rank);
// The step that runs now, or is being saved.
void set_fault_step(std::int64_t step);
void fault_point(std::string_view point);

}  // namespace lt
