// What ran when: spans on the lanes of a rank's device. Whoever does something that a person wants to see opens a span;
// without a timeline, and without a profiler of CUDA, that costs some nanoseconds. On CUDA a span of the lane `compute`
// lasts from the end of the work before it to the end of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/device/context.h"
#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt {

// One row of a trace each. On the CPU all lanes but `compute` are what MPI does meanwhile.
enum class Lane { compute, gather, reduce, copy };
inline constexpr std::string_view kLaneNames[] = {"compute", "gather", "reduce", "copy"};

// What a span that is a collective moves, and between whom.
struct CollectiveShape {
  Size bytes = -1;  // that this rank sends; below 0: no collective
  int ranks = 1;    // of the group
  int stride = 1;   // between the group's neighbours, in ranks of the run
  int rounds = 1;   // 2: a reduce-scatter and an all-gather, one after the other
};

struct Span {
  Lane lane = Lane::compute;
  std::string name;
  CollectiveShape collective = {};
  bool is_activity = false;          // of a step: `name` is one of kActivityNames
  double begin_us = 0, end_us = -1;  // since the timeline's origin; end below 0: still open
};

// The spans of one thread, by this device's clock.
class Timeline {
 public:
  virtual ~Timeline() = default;
  // Returns the handle for end(), which may come in any order.
  virtual std::size_t begin(Span span, const TimePoint& at) = 0;
  virtual void end(std::size_t handle, const TimePoint& at) = 0;
  // On the stream that computes.
  virtual TimePoint now() = 0;
  // In the order in which they began, with their times, for which it waits.
  virtual const std::vector<Span>& spans() = 0;
};

// By the clock of `device`; its origin is the time of the call.
std::shared_ptr<Timeline> make_timeline(Device device = kCpu);
// The same with an origin that is a time point of the device's compute stream.
std::shared_ptr<Timeline> make_timeline(Device device, const TimePoint& origin);

// Spans of this thread go to the timeline, or nowhere where it is null, until the scope ends.
using TimelineScope = ContextMemberScope<&Context::timeline>;

// Also a range of the profilers of CUDA.
class SpanScope {
 public:
  SpanScope(Lane lane, std::string_view name, const CollectiveShape& collective = {}, bool is_activity = false);
  ~SpanScope();
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  Timeline* timeline_;  // which outlives the scope: it changes between steps alone
  std::size_t handle_ = 0;
};

}  // namespace lt
