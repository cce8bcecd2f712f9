// The schedule of a rank's step: its work, and when it starts and waits for collectives, as the engine ordered them.
#pragma once

#include <cstddef>
#include <vector>

#include "libtrain/plan/planner.h"
#include "libtrain/profile/timeline.h"

namespace lt::planner {

struct ScheduleEvent {
  enum class Kind { work, begin, wait, step_end };
  Kind kind = Kind::work;
  double work_ms = 0;          // at full speed
  std::size_t collective = 0;  // of begin and wait: its number
  Lane lane = Lane::compute;   // of begin
  CollectiveShape shape = {};  // of begin
};
using StepSchedule = std::vector<ScheduleEvent>;

// make_plan(), which also returns the schedule of two steps, each with a step_end. Waits at the beginning of the first
// may be for collectives that began before.
Plan make_plan_with_schedule(const Config& config, int ranks, const PlanMachine& machine, StepSchedule& schedule);

}  // namespace lt::planner
