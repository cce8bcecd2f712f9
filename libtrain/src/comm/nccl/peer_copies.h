// Exchanges between the ranks of a host by the copy engines of their devices, without multiprocessors. A rank signals a
// peer by copying a word into the peer's memory; the peer's stream waits for that word. Works in CUDA graphs.
//
//   receiver                              sender
//   sets ready[receiver] at the sender    waits for ready[receiver], clears it
//                                         copies pieces into the receiver's memory
//   waits for arrived[sender], clears it  sets arrived[sender] at the receiver
//
// A rank sets a word again only after the peer has answered the previous one. So no word is set twice before it is
// cleared.
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
  // For the exchanges among a group's ranks on this host, all on one stream. `rank` and `size` are among the host's
  // ranks. All of them must construct it at the same time.
  PeerCopies(std::shared_ptr<WindowMemory> memory, int rank, int size);

  // True if all ranks of the host can write to [begin, begin + bytes) of this rank.
  bool reach(const void* begin, Size bytes) const { return memory_->on_rank(rank_, begin, bytes) != nullptr; }

  struct Copy {
    const void* from;
    void* to;  // an address in this rank's window; the copy goes to the same offset in the peer's window
    Size bytes;
  };
  // Copies to every other rank and waits for their copies, in stream order. `meanwhile` enqueues work between this
  // rank's copies and its wait.
  void exchange(const Stream& stream, const std::function<std::vector<Copy>(int rank)>& copies_to,
                const std::function<void()>& meanwhile = {}) const;

  // Ends all waits for dead peers within seconds. Results are lost, and no exchange may follow.
  void release() const noexcept { memory_->release_waits(); }

 private:
  void set(std::uint32_t* words, int peer, const Stream& stream) const;

  std::shared_ptr<WindowMemory> memory_;
  int rank_, size_;
  std::uint32_t *ready_, *arrived_;  // a word for each rank
};

}  // namespace lt::comm
