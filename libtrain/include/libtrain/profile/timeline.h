// Spans of time on the lanes of a rank's device. Code opens a span around work that a trace should show; without a
// timeline and without a CUDA profiler that costs a few nanoseconds. On CUDA, a span of the lane `compute` lasts from
// the end of the work before it to the end of its own work.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/device/context.h"
#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace LT_API lt {

// The rows of a trace. On the CPU, the lanes other than `compute` show MPI's concurrent work.
enum class Lane { compute, gather, reduce, copy };
inline constexpr std::string_view kLaneNames[] = {"compute", "gather", "reduce", "copy"};

// The size and the ranks of a span that is a collective.
struct CollectiveShape {
  Size bytes = -1;  // sent by this rank; below 0: no collective
  int ranks = 1;    // in the group
  int stride = 1;   // between neighbours in the group, in ranks of the run
  int rounds = 1;   // 2: a reduce-scatter and an all-gather, one after the other
};

struct Span {
  Lane lane = Lane::compute;
  std::string name;
  CollectiveShape collective = {};
  bool is_activity = false;          // `name` is one of kActivityNames
  double begin_us = 0, end_us = -1;  // since the timeline's origin; end below 0: still open
};

// The spans of one thread, by this device's clock.
class Timeline {
 public:
  virtual ~Timeline() = default;
  // Returns the handle for end(). Spans may end in any order.
  virtual std::size_t begin(Span span, const TimePoint& at) = 0;
  virtual void end(std::size_t handle, const TimePoint& at) = 0;
  // The current point of the compute stream.
  virtual TimePoint now() = 0;
  // The spans in the order in which they began. Waits for their times.
  virtual const std::vector<Span>& spans() = 0;
};

// Uses the clock of `device`. The origin is the time of the call.
std::shared_ptr<Timeline> make_timeline(Device device = kCpu);
// The same, with a time point of the device's compute stream as the origin.
std::shared_ptr<Timeline> make_timeline(Device device, const TimePoint& origin);

// Directs the spans of this thread to the timeline until the scope ends; null drops them.
using TimelineScope = ContextMemberScope<&Context::timeline>;

// Opens a span for the scope; also a range in CUDA profilers.
class SpanScope {
 public:
  SpanScope(Lane lane, std::string_view name, const CollectiveShape& collective = {}, bool is_activity = false);
  ~SpanScope();
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  Timeline* timeline_;  // outlives the scope, since it changes only between steps
  std::size_t handle_ = 0;
};

}  // namespace lt
