// Records spans with time points of a device's compute stream.
#include "libtrain/profile/timeline.h"

#include <utility>

#include "profile/ranges.h"

namespace lt {
namespace {

class ClockTimeline final : public Timeline {
 public:
  ClockTimeline(Device device, const TimePoint& origin) : stream_(Stream::compute(device)), origin_(origin) {}

  std::size_t begin(Span span, const TimePoint& at) override {
    spans_.push_back(std::move(span));
    times_.push_back({at, {}, false});
    return spans_.size() - 1;
  }
  void end(std::size_t handle, const TimePoint& at) override { times_[handle].end = at, times_[handle].ended = true; }
  TimePoint now() override { return TimePoint::on(stream_); }

  const std::vector<Span>& spans() override {
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      spans_[i].begin_us = times_[i].begin.ms_since(origin_) * 1e3;
      if (times_[i].ended) spans_[i].end_us = times_[i].end.ms_since(origin_) * 1e3;
    }
    return spans_;
  }

 private:
  struct Times {
    TimePoint begin, end;
    bool ended;
  };
  const Stream stream_;
  const TimePoint origin_;
  std::vector<Span> spans_;
  std::vector<Times> times_;  // parallel to spans_
};

}  // namespace

SpanScope::SpanScope(Lane lane, std::string_view name, const CollectiveShape& collective, bool is_activity)
    : timeline_(Context::current().timeline.get()) {
  profile::push_range(name);
  if (timeline_ == nullptr) return;
  handle_ = timeline_->begin({lane, std::string(name), collective, is_activity}, timeline_->now());
}

SpanScope::~SpanScope() {
  try {
    if (timeline_ != nullptr) timeline_->end(handle_, timeline_->now());
  } catch (...) {
    // A destructor cannot report it; the device's next call fails as well.
  }
  profile::pop_range();
}

std::shared_ptr<Timeline> make_timeline(Device device) {
  return make_timeline(device, TimePoint::on(Stream::compute(device)));
}
std::shared_ptr<Timeline> make_timeline(Device device, const TimePoint& origin) {
  return std::make_shared<ClockTimeline>(device, origin);
}

}  // namespace lt
