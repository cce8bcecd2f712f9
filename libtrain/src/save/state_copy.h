// Copies ranges of an engine's state to host memory. Only the update changes the state, so on a GPU a copy runs on its
// own stream during the next forward and backward pass.
#pragma once

#include <memory>
#include <vector>

#include "checkpoints/memory/copy_format.h"
#include "libtrain/parallel/engine.h"

namespace lt::saver {

// At most one per engine, because the engine's update waits for one stream only.
class StateCopy {
 public:
  // Copies `ranges` of the state of `engine`, which must outlive this object. `may_skip`: the run continues after a
  // step without an update in any dtype (train.skip_nonfinite).
  StateCopy(Engine& engine, std::vector<StateRange> ranges, bool may_skip = false);

  // The place of each range in a copy, and the size of a copy.
  const std::vector<checkpoint::CopyRange>& layout() const { return layout_; }
  Size bytes() const { return checkpoint::payload_bytes_of(layout_); }
  // The number of transfers of a copy; adjacent ranges share one. A waiting stream queues about 1,000 transfers. With
  // more, the host would block until the copy is done and delay the next step.
  std::size_t transfers() const { return transfers_.size(); }
  // Copies the state after the last step to `to`, which holds bytes() bytes. On the CPU it returns when the copy is
  // complete. On a GPU the event marks completion, and the next update waits for it.
  Event start(void* to) const;
  // The loss scale of that state, with the counts of skipped steps. In f16, with ignored targets and with `may_skip` it
  // waits for the last step. Other runs end at the first step without an update, so the constructor's value is right.
  LossScale loss_scale() const;
  // Returns the same ranges, with `copy` as the memory of their values.
  std::vector<StateRange> ranges_in(const std::shared_ptr<void>& copy) const;

 private:
  Engine& engine_;
  std::vector<StateRange> ranges_;
  std::vector<checkpoint::CopyRange> layout_;  // parallel to ranges_
  struct Transfer {
    const std::byte* from;
    Size offset, bytes;  // place in a copy
  };
  std::vector<Transfer> transfers_;
  Stream stream_;
  bool may_skip_;
  LossScale first_loss_scale_;
};

// The size in bytes of one copy of these ranges.
Size state_copy_bytes(const std::vector<StateRange>& ranges);

// The number of buffers for asynchronous saves: one is written to disk while the other one fills.
inline constexpr Size kSaveBuffers = 2;

}  // namespace lt::saver
