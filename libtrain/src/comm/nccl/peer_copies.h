// Exchanges between the ranks of a host by the copy engines of their devices. No multiprocessor takes part: a stream
// waits for a peer by waiting for a word in its own memory, which the peer sets by a copy. Works in CUDA graphs.
//
//   receiver                              sender
//   sets ready[receiver] at the sender    waits for ready[receiver], clears it
//                                         copies pieces into the receiver's memory
//   waits for arrived[sender], clears it  sets arrived[sender] at the receiver
//
// A word is never set twice before it is cleared: a rank sets it again only after the answer to the first time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "comm/nccl/nccl_windows.h"
#include "libtrain/device/device.h"

namespace lt::comm {

class PeerCopies {
 public:
  // For the exchanges of one group's ranks on this host, which all run on one stream. `rank` and `size` count the ranks
  // of the host. All of them must construct it at the same time.
  PeerCopies(std::shared_ptr<WindowMemory> memory, int rank, int size);

  // Whether all ranks can write to [begin, begin + bytes) of this rank.
  bool reach(const void* begin, Size bytes) const { return memory_->on_rank(rank_, begin, bytes) != nullptr; }

  struct Copy {
    const void* from;
    void* to;  // a place in this rank's window, which stands for the same place in the peer's
    Size bytes;
  };
  // Makes the copies to every other rank, and awaits theirs, in stream order. `meanwhile` enqueues work of this rank
  // after its copies and before it waits for those of others.
  void exchange(const Stream& stream, const std::function<std::vector<Copy>(int rank)>& copies_to,
                const std::function<void()>& meanwhile = {}) const;

  // Ends all waits for peers that are gone, within seconds. Results are lost, and no exchange may follow.
  void release() const noexcept { memory_->release_waits(); }

 private:
  void set(std::uint32_t* words, int peer, const Stream& stream) const;

  std::shared_ptr<WindowMemory> memory_;
  int rank_, size_;
  std::uint32_t *ready_, *arrived_;  // a word for each rank
};

}  // namespace lt::comm
