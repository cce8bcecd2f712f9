// Spans of time on the lanes of a rank's device. Open a span around work that a trace should show. It costs a few
// nanoseconds if there is neither a timeline nor a CUDA profiler. On CUDA, a span of the lane `compute` lasts from the
// end of the work before it to the end of its own work.
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

// The rows of a trace. On the CPU, the lanes other than `compute` show concurrent communication.
enum class Lane { compute, gather, reduce, copy };
inline constexpr std::string_view kLaneNames[] = {"compute", "gather", "reduce", "copy"};

// Size and ranks of a collective that a span shows.
struct CollectiveShape {
  Size bytes = -1;  // sent by this rank; below 0: the span is not a collective
  int ranks = 1;    // in the group
  int stride = 1;   // distance between neighbours in the group, in ranks of the run
  int rounds = 1;   // 2: a reduce-scatter, then an all-gather
};

struct Span {
  Lane lane = Lane::compute;
  std::string name;
  CollectiveShape collective = {};
  bool is_activity = false;          // `name` is one of kActivityNames
  double begin_us = 0, end_us = -1;  // microseconds since the timeline's origin; end below 0: open
};

// The spans of one thread, timed by its device.
class Timeline {
 public:
  virtual ~Timeline() = default;
  // Returns the handle for end(). Spans may end in any order.
  virtual std::size_t begin(Span span, const TimePoint& at) = 0;
  virtual void end(std::size_t handle, const TimePoint& at) = 0;
  // The end of the work that the compute stream holds now.
  virtual TimePoint now() = 0;
  // The spans in the order in which they began. Blocks until the device has reached their times.
  virtual const std::vector<Span>& spans() = 0;
};

// A timeline that measures on the compute stream of `device`. Its origin is the time of the call.
std::shared_ptr<Timeline> make_timeline(Device device = kCpu);
// Like make_timeline(device), but `origin`, a time point of that stream, is the origin.
std::shared_ptr<Timeline> make_timeline(Device device, const TimePoint& origin);

// Sends the spans of this thread to a timeline until the scope ends. Null: they are dropped.
using TimelineScope = ContextMemberScope<&Context::timeline>;

// A span on this thread's timeline for the duration of the scope, and a range of that name in CUDA profilers.
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
