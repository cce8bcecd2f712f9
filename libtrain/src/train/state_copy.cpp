// Where each range lies in a copy, and how it comes there.
#include "train/state_copy.h"

#include <algorithm>
#include <utility>

#include "core/copy_bytes.h"
#include "tensor/host_memory.h"

namespace lt {
namespace {

constexpr Size kAlignment = kAllocationAlignment / Size{sizeof(float)};  // elements

Size aligned(const StateRange& range) { return (range.end - range.begin + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

Size state_copy_bytes(const std::vector<StateRange>& ranges) {
  Size elements = 0;
  for (const StateRange& range : ranges) elements += aligned(range);
  return std::max(elements, kAlignment) * Size{sizeof(float)};
}

StateCopy::StateCopy(Engine& engine, std::vector<StateRange> ranges)
    : engine_(engine), ranges_(std::move(ranges)), bytes_(state_copy_bytes(ranges_)), stream_(engine.options().device) {
  Size at = 0;
  for (const StateRange& range : ranges_) {
    begin_.push_back(at);
    at += aligned(range);
  }
  engine.hold_update_for(stream_);  // from the first step on
}

Event StateCopy::start(void* to) const {
  Event updated, copied;
  updated.record(Stream::compute(stream_.device()));
  stream_.wait(updated);
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    copy_bytes(stream_, static_cast<float*>(to) + begin_[i], ranges_[i].values.data(), ranges_[i].values.bytes());
  }
  copied.record(stream_);
  engine_.hold_update_for(stream_);
  return copied;
}

std::vector<StateRange> StateCopy::ranges_in(const std::shared_ptr<void>& copy) const {
  std::vector<StateRange> ranges = ranges_;
  const Tensor all = tensor_over(copy, bytes_ / Size{sizeof(float)});
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    ranges[i].values = all.narrow(0, begin_[i], ranges[i].end - ranges[i].begin);
  }
  return ranges;
}

}  // namespace lt
