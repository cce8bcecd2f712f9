// Enqueues the copies of an exchange and the words that order them.
#include "comm/nccl/peer_copies.h"

#include <utility>
#include <vector>

#include "device/cuda.h"
#include "device/fault.h"

namespace lt::comm {
namespace {

constexpr const char* kHandOver = "hand-over";

}  // namespace

PeerCopies::PeerCopies(std::shared_ptr<WindowMemory> memory, int rank, int size)
    : memory_(std::move(memory)),
      rank_(rank),
      size_(size),
      ready_(memory_->take_words(size)),
      arrived_(memory_->take_words(size)) {}

void PeerCopies::exchange(const Stream& stream, const std::function<std::vector<Copy>(int rank)>& copies_to,
                          const std::function<void()>& meanwhile) const {
  const auto for_peers = [&](auto&& each) {  // so that not all ranks send to the same one first
    for (int i = 1; i < size_; ++i) each((rank_ + i) % size_);
  };
  device::fault_point(kHandOver, stream);
  for_peers([&](int peer) { set(ready_, peer, stream); });
  for_peers([&](int peer) {
    device::cuda::wait_and_clear({ready_ + peer}, stream.cuda());
    device::fault_point(kHandOver, stream);
    for (const auto& [from, to, bytes] : copies_to(peer)) {
      device::cuda::copy(memory_->on_rank(peer, to, bytes), from, bytes, stream.cuda());
    }
    device::fault_point(kHandOver, stream);
    set(arrived_, peer, stream);
  });
  if (meanwhile) meanwhile();
  std::vector<std::uint32_t*> arrivals;
  for_peers([&](int peer) { arrivals.push_back(arrived_ + peer); });
  device::cuda::wait_and_clear(arrivals, stream.cuda());
  device::fault_point(kHandOver, stream);
}

// words[rank_] on `peer` = 1.
void PeerCopies::set(std::uint32_t* words, int peer, const Stream& stream) const {
  device::cuda::copy(memory_->on_rank(peer, words + rank_, sizeof(std::uint32_t)), memory_->one(),
                     sizeof(std::uint32_t), stream.cuda());
}

}  // namespace lt::comm
