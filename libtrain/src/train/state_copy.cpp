// Where each range lies in a copy, and how it comes there.
#include "train/state_copy.h"

#include <utility>

#include "core/copy_bytes.h"
#include "memory_copy.h"
#include "tensor/host_memory.h"

namespace lt {

Size state_copy_bytes(const std::vector<StateRange>& ranges) {
  return checkpoint::copy_bytes_of(checkpoint::copy_layout(ranges));
}

StateCopy::StateCopy(Engine& engine, std::vector<StateRange> ranges)
    : engine_(engine),
      ranges_(std::move(ranges)),
      layout_(checkpoint::copy_layout(ranges_)),
      bytes_(checkpoint::copy_bytes_of(layout_)),
      stream_(engine.options().device) {
  engine.hold_update_for(stream_);  // from the first step on
}

Event StateCopy::start(void* to) const {
  Event updated, copied;
  updated.record(Stream::compute(stream_.device()));
  stream_.wait(updated);
  auto* place = static_cast<std::byte*>(to);
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    copy_bytes(stream_, place + layout_[i].offset, ranges_[i].values.data(), ranges_[i].values.bytes());
  }
  copied.record(stream_);
  engine_.hold_update_for(stream_);
  return copied;
}

std::vector<StateRange> StateCopy::ranges_in(const std::shared_ptr<void>& copy) const {
  std::vector<StateRange> ranges = ranges_;
  const Tensor all = tensor_over(copy, bytes_ / Size{sizeof(float)});
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    ranges[i].values = all.narrow(0, layout_[i].offset / Size{sizeof(float)}, ranges[i].end - ranges[i].begin);
  }
  return ranges;
}

}  // namespace lt
