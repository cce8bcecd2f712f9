// Copies ranges of an engine's state to memory of the host. Only the update changes them, so on a GPU a copy runs on a
// stream of its own, beside the next forward and backward pass.
#pragma once

#include <memory>
#include <vector>

#include "copy_format.h"
#include "libtrain/parallel/engine.h"

namespace lt {

// An engine has one, since its update waits for one stream.
class StateCopy {
 public:
  // `ranges` of the state of `engine`, which outlives it.
  StateCopy(Engine& engine, std::vector<StateRange> ranges);

  // Where each range lies in a copy, and the size of one.
  const std::vector<checkpoint::CopyRange>& layout() const { return layout_; }
  Size bytes() const { return checkpoint::payload_bytes_of(layout_); }
  // Ranges that lie side by side go in one transfer. A stream that waits takes some 1,000 of them; with more the host
  // would stand still until the copy is done, and with it the next step.
  std::size_t transfers() const { return transfers_.size(); }
  // Copies the state after the last step to `to`, of bytes() bytes. On the CPU it returns when all is there; on a GPU
  // the event marks that, and the next update waits for it.
  Event start(void* to) const;
  // The same ranges with their values in a copy.
  std::vector<StateRange> ranges_in(const std::shared_ptr<void>& copy) const;

 private:
  Engine& engine_;
  std::vector<StateRange> ranges_;
  std::vector<checkpoint::CopyRange> layout_;  // of each range
  struct Transfer {
    const std::byte* from;
    Size offset, bytes;  // in a copy
  };
  std::vector<Transfer> transfers_;
  Stream stream_;
};

// Bytes of one copy of these ranges.
Size state_copy_bytes(const std::vector<StateRange>& ranges);

// The buffers of asynchronous saves: one is written to the disk while the next one fills.
inline constexpr Size kSaveBuffers = 2;

}  // namespace lt
