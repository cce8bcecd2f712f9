// Peer memory on CUDA devices: ncclMemAlloc() blocks that are symmetric windows of a communicator of each host's ranks.
// NCCL maps each block on all of these ranks; copies between them then need no NCCL (peer_copies.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/nccl/nccl_communicator.h"
#include "memory/buffer.h"

namespace lt::comm {

class WindowMemory final : public memory::BlockSource, public std::enable_shared_from_this<WindowMemory> {
 public:
  // `communicator` has the `ranks` ranks of this host. All ranks of `control`, on all hosts, make and release windows
  // together.
  WindowMemory(std::shared_ptr<GroupBackend> control, int ranks, std::shared_ptr<NcclCommunicator> communicator,
               Device device);
  ~WindowMemory() override;

  // Call it once, first. Throws if a window cannot be made. Returns false if one can be made but its memory is not
  // mapped on all ranks.
  bool open();

  Block allocate(Size bytes, MemoryOwner owner) override;
  void release(std::size_t index) noexcept override;

  // The place of this rank's `address` on rank `rank` of this host, or null if [address, address + bytes) is not in one
  // window. The answer is the same on all ranks if they ask for the same places.
  std::byte* on_rank(int rank, const void* address, Size bytes) const;

  // Words in a window, zero at first. All ranks must take them in the same order.
  std::uint32_t* take_words(Size count);
  // A word that is 1, in device memory.
  const std::uint32_t* one() const { return words_; }
  // Writes 1 to all words that were taken, again and again for some seconds, on a thread of its own: for streams that
  // wait for words that a dead peer will not write. No exchange may follow.
  void release_waits() noexcept;

 private:
  struct Window {
    std::byte* memory = nullptr;
    Size bytes = 0;
    ncclWindow_t handle = nullptr;
    std::vector<std::byte*> peers;  // its place on each rank of this host
  };
  struct Entry {
    Window window;
    MemoryOwner owner;
    bool counted;
  };

  bool prepare_words();
  Window make(Size bytes) const;
  void require_same(Size bytes) const;
  void* take(Size bytes) const;
  std::vector<std::byte*> find_peers(ncclWindow_t window) const;
  void give_back(const Window& window) const noexcept;

  const Group control_;
  const int ranks_;
  const std::shared_ptr<NcclCommunicator> communicator_;
  const Device device_;
  Window control_window_;  // holds words
  std::uint32_t* words_ = nullptr;
  Size words_taken_ = 1;
  bool releases_ = false;
  std::vector<Entry> entries_;
  std::map<const std::byte*, Window> live_;  // by its begin
};

// Windows that all ranks of `control` can have, or why there are none. `grid` is that of the group they are for. All
// ranks must call it at the same time.
struct Windows {
  std::shared_ptr<WindowMemory> memory;
  std::string why_none;
};
Windows make_windows(std::shared_ptr<GroupBackend> control, const std::shared_ptr<NcclCommunicator>& parent,
                     const HostGrid& grid, Device device);

}  // namespace lt::comm
