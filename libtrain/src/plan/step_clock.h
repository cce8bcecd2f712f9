// Estimates the time of a step: a timeline whose clock advances by counted work instead of real time. Run an engine's
// step on the meta device with it, so that the engine's own schedule decides which collectives are hidden.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "libtrain/plan/planner.h"
#include "libtrain/profile/timeline.h"
#include "plan/device_model.h"
#include "plan/run_rates.h"
#include "plan/schedule.h"
#include "profile/work_count.h"

namespace lt::planner {

struct DeviceUse {
  DeviceModel device;
  NodeLayout layout;
  int cores = 1;  // cores per rank; 1 on a GPU
  DType dtype = DType::f32;
  Size head_dim = 0;
  double operation_us = 0;  // overhead of an operation
  // The fractions of its speed that work loses while a collective runs; see kLossToTransfer and kLossToWaiting.
  double loss_to_transfer = 0, loss_to_waiting = 0;
  std::shared_ptr<const RunRates> rates = nullptr;  // if not null, its measured rates replace the device's
};

class StepClock final : public Timeline {
 public:
  explicit StepClock(const DeviceUse& use);

  std::size_t begin(Span span, const TimePoint& at) override;
  void end(std::size_t handle, const TimePoint& at) override;
  TimePoint now() override { return {}; }  // unused: spans take their times from the estimated clock
  const std::vector<Span>& spans() override { return spans_; }

  // The work counter that drives the clock. The caller must point a WorkScope at it while this timeline is in use.
  profile::WorkCount& work() { return work_; }
  // Returns the time since the last call. Collectives may be in flight across the call.
  StepTime take();
  // From now on, appends events to `schedule`, which must live until the next call. Null stops that.
  void record_to(StepSchedule* schedule) { schedule_ = schedule; }

 private:
  void compute();           // advances the clock by the work counted since the last call
  void advance(double ms);  // by work of this time; it takes longer while a collective runs
  void wait_for(Span& span, const CollectiveCost& cost);
  // The time of the work counted since the last call of compute(). `now` is all counted work.
  double matmuls_ms(const profile::WorkCount& now) const;
  double quantized_matmuls_ms(double flops) const;  // in e4m3
  double attention_ms(const profile::WorkCount& now) const;
  double traffic_ms(const profile::WorkCount& now) const;
  bool is_low() const;                                   // true if matmuls run at the rate of bf16
  double per_tera() const { return 1e-9 / use_.cores; }  // ms for 1 FLOP at 1 TFLOP/s
  CollectiveCost cost_of(Lane lane, const CollectiveShape& shape);

  DeviceUse use_;
  profile::WorkCount work_, counted_;
  double now_ms_ = 0;
  struct InFlight {
    double end_ms, loss;  // loss: fraction of the speed of simultaneous work
  };
  std::deque<InFlight> in_flight_;                     // one after the other
  double link_free_ms_ = 0;                            // collectives share the links, so they run one at a time
  std::vector<Activity> activities_{Activity::other};  // open activities, innermost last
  std::vector<Span> spans_;
  std::vector<std::optional<CollectiveCost>> costs_;      // parallel to spans_
  std::map<std::pair<int, int>, GroupPlacement> groups_;  // by ranks and stride
  StepTime time_;
  StepSchedule* schedule_ = nullptr;
};

}  // namespace lt::planner
