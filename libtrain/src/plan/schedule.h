// The schedule of a rank's step, in the engine's order: its work, and the begin and the wait of each collective.
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
  std::size_t collective = 0;  // for begin and wait: number of the collective
  Lane lane = Lane::compute;   // for begin
  CollectiveShape shape = {};  // for begin
};
using StepSchedule = std::vector<ScheduleEvent>;

// Like make_plan(), but also sets `schedule` to two steps, each ended by a step_end. The first waits may be for
// collectives that began in an earlier step.
Plan make_plan_with_schedule(const Config& config, int ranks, const PlanMachine& machine, StepSchedule& schedule);

}  // namespace lt::planner
