// The lanes on which an update transforms matrices. All units share a lane's workspace, because its work is in order.
#pragma once

#include <array>
#include <cstddef>

#include "libtrain/memory/memory.h"
#include "libtrain/optim/optimizer.h"
#include "parallel/flat_buffer.h"
#include "parallel/sharding.h"

namespace lt::parallel {

class TransformScope {
 public:
  TransformScope(const Sharding& sharding, const std::array<Size, kTransformLanes>& workspace_bytes) {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      lanes_[i].stream = sharding.transform_streams[i];
      if (workspace_bytes[i] == 0) continue;
      lanes_[i].workspace = flat_uninitialised(workspace_bytes[i], DType::u8, sharding.device, MemoryOwner::optimizer);
    }
  }
  // Makes the compute stream wait for the lanes. A complete update has already done so. If an exception ended the
  // update, this prevents reuse of memory that the lanes still use.
  ~TransformScope() {
    try {
      for (const TransformLane& lane : lanes_) {
        if (!lane.workspace.defined()) continue;
        Event end;
        end.record(lane.stream);
        Stream::compute(lane.stream.device()).wait(end);
      }
    } catch (...) {
      // A destructor cannot report it; the device's next call fails as well.
    }
  }
  TransformScope(const TransformScope&) = delete;
  TransformScope& operator=(const TransformScope&) = delete;

  const TransformLanes& lanes() const { return lanes_; }

 private:
  TransformLanes lanes_;
};

}  // namespace lt::parallel
