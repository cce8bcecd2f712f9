// Where each range lies in the copy, and how it comes there.
#include "train/state_copy.h"

#include <algorithm>

#include "core/copy_bytes.h"
#include "tensor/host_memory.h"

namespace lt {
namespace {

constexpr Size kAlignment = kAllocationAlignment / Size{sizeof(float)};  // elements

Size aligned(Size elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

Size state_copy_bytes(const ShardMap& map) {
  Size elements = 0;
  for (const StateRange& range : map.owned) elements += aligned(range.end - range.begin);
  return std::max(elements * Size{sizeof(float)}, kAllocationAlignment);
}

StateCopy::StateCopy(Engine& engine)
    : engine_(engine),
      source_(engine.shard_map()),
      bytes_(state_copy_bytes(source_)),
      stream_(engine.options().device) {
  Size at = 0;
  for (const StateRange& range : source_.owned) {
    offset_.push_back(at);
    at += aligned(range.end - range.begin);
  }
}

Event StateCopy::start(void* to) {
  Event updated, copied;
  updated.record(Stream::compute(stream_.device()));
  stream_.wait(updated);
  for (std::size_t i = 0; i < source_.owned.size(); ++i) {
    const Tensor& values = source_.owned[i].values;
    copy_bytes(stream_, static_cast<float*>(to) + offset_[i], values.data(), values.bytes());
  }
  copied.record(stream_);
  engine_.hold_update_until(copied);
  return copied;
}

ShardMap StateCopy::map_over(const std::shared_ptr<void>& memory) const {
  ShardMap map{source_.parameters, {}, {}};
  const Tensor all = tensor_over(memory, bytes_ / Size{sizeof(float)});
  for (std::size_t i = 0; i < source_.owned.size(); ++i) {
    const StateRange& range = source_.owned[i];
    map.owned.push_back(
        {range.parameter, range.kind, range.begin, range.end, all.narrow(0, offset_[i], range.end - range.begin)});
  }
  return map;
}

}  // namespace lt
