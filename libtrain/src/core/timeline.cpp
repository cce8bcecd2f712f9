// The current timeline, and that of the CPU.
#include "libtrain/timeline.h"

#include <chrono>
#include <utility>

namespace lt {
namespace {

thread_local std::shared_ptr<Timeline> current_timeline;

class CpuTimeline final : public Timeline {
 public:
  std::size_t begin(Span span) override {
    span.begin_us = now_us();
    spans_.push_back(std::move(span));
    return spans_.size() - 1;
  }
  void end(std::size_t handle) override { spans_[handle].end_us = now_us(); }
  const std::vector<Span>& spans() override { return spans_; }

 private:
  using Clock = std::chrono::steady_clock;
  double now_us() const { return std::chrono::duration<double, std::micro>(Clock::now() - origin_).count(); }

  const Clock::time_point origin_ = Clock::now();
  std::vector<Span> spans_;
};

}  // namespace

const std::shared_ptr<Timeline>& Timeline::current() { return current_timeline; }
void Timeline::set_current(std::shared_ptr<Timeline> timeline) { current_timeline = std::move(timeline); }

std::shared_ptr<Timeline> make_cpu_timeline() { return std::make_shared<CpuTimeline>(); }

}  // namespace lt
