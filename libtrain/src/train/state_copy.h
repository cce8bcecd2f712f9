// Copies ranges of an engine's state to memory of the host. Only the update changes them, so on a GPU a copy runs on a
// stream of its own, beside the next forward and backward pass.
#pragma once

#include <memory>
#include <vector>

#include "libtrain/engine.h"

namespace lt {

class StateCopy {
 public:
  // `ranges` of the state of `engine`, which outlives it; made before its first step.
  StateCopy(Engine& engine, std::vector<StateRange> ranges);

  // The size of one copy: the ranges one after the other, each at a multiple of kAllocationAlignment bytes.
  Size bytes() const { return bytes_; }
  // Copies the state after the last step to `to`, of bytes() bytes. On the CPU it returns when all is there; on a GPU
  // the event marks that, and the next update waits for it.
  Event start(void* to) const;
  // The same ranges with their values in a copy.
  std::vector<StateRange> ranges_in(const std::shared_ptr<void>& copy) const;

 private:
  Engine& engine_;
  std::vector<StateRange> ranges_;
  std::vector<Size> begin_;  // of each range in a copy, in elements
  Size bytes_;
  Stream stream_;
};

// Bytes of one copy of these ranges; at least one block.
Size state_copy_bytes(const std::vector<StateRange>& ranges);

// The buffers of asynchronous saves: one is written to the disk while the next one fills.
inline constexpr Size kSaveBuffers = 2;

}  // namespace lt
