// A copy of what a rank owns of masters, m and v in one flat buffer of the host. Only the update changes them, so on a
// GPU the copy runs on a stream of its own, beside the next forward and backward pass.
#pragma once

#include <memory>

#include "libtrain/engine.h"

namespace lt {

class StateCopy {
 public:
  // Of the engine, which outlives it.
  explicit StateCopy(Engine& engine);

  // Of one copy; at least 1.
  Size bytes() const { return bytes_; }
  // Copies the state after the last step to `to`, of bytes() bytes (host_memory()). On the CPU it returns when all is
  // there; on a GPU the event marks that, and the next update waits for it.
  Event start(void* to);
  // The engine's shard map with what is owned lying in `memory`, and nothing needed.
  ShardMap map_over(const std::shared_ptr<void>& memory) const;

 private:
  Engine& engine_;
  ShardMap source_;           // of the engine
  std::vector<Size> offset_;  // in elements of the buffer, of each range owned
  Size bytes_ = 0;
  Stream stream_;
};

// The buffers of asynchronous saves: one is written to the disk while the next one fills.
inline constexpr Size kSaveBuffers = 2;
// Bytes of one copy.
Size state_copy_bytes(const ShardMap& map);

}  // namespace lt
