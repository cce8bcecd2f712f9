// The time that a step would take: a timeline whose clock is driven by counted work instead of time. Run a step of an
// engine on the meta device under it; the engine's own schedule then decides what hides behind what.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "libtrain/profile/timeline.h"
#include "libtrain/train/planner.h"
#include "profile/work_count.h"
#include "train/device_model.h"

namespace lt {

struct DeviceUse {
  const DeviceModel* device = nullptr;
  NodeLayout layout;
  int cores = 1;  // that a rank computes with; 1 on a GPU
  DType dtype = DType::f32;
  Size head_dim = 0;
};

class StepClock final : public Timeline {
 public:
  explicit StepClock(const DeviceUse& use) : use_(use) {}

  std::size_t begin(Span span, const TimePoint& at) override;
  void end(std::size_t handle, const TimePoint& at) override;
  TimePoint now() override { return {}; }  // its own clock says when things happen
  const std::vector<Span>& spans() override { return spans_; }

  // The clock's counter. The caller points a WorkScope at it while spans go here.
  WorkCount& work() { return work_; }
  // The time of what ran since the last call. Collectives may be on their way across it.
  StepTime take();

 private:
  void compute();  // the work counted since the last call passes
  void wait_for(Span& span, const CollectiveCost& cost);
  CollectiveCost cost_of(const CollectiveShape& shape);

  DeviceUse use_;
  WorkCount work_, counted_;
  double now_ms_ = 0;
  double link_free_ms_ = 0;                            // collectives share the links: one at a time gets all of them
  std::vector<Activity> activities_{Activity::other};  // those that are open, innermost last
  std::vector<Span> spans_;
  std::vector<std::optional<CollectiveCost>> costs_;      // beside spans_
  std::map<std::pair<int, int>, GroupPlacement> groups_;  // by ranks and stride
  StepTime time_;
};

}  // namespace lt
