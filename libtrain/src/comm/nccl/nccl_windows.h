// Windows: symmetric memory on CUDA devices that peers on the same host can write. Each window is an ncclMemAlloc()
// block, registered with a communicator of the host's ranks. NCCL maps it on all of these ranks, so copies between them
// need no NCCL call (peer_copies.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/nccl/nccl_communicator.h"
#include "memory/allocation.h"

namespace lt::comm {

class WindowMemory final : public memory::BlockSource, public std::enable_shared_from_this<WindowMemory> {
 public:
  // `communicator` has the `ranks` ranks of this host. All ranks of `control`, on all hosts, must make and release
  // windows together.
  WindowMemory(std::shared_ptr<GroupBackend> control, int ranks, std::shared_ptr<NcclCommunicator> communicator,
               Device device);
  ~WindowMemory() override;

  // Call it once, first. Throws if a window cannot be made. Returns false if one can be made but its memory is not
  // mapped on all ranks.
  bool open();

  Block allocate(Size bytes, MemoryOwner owner) override;
  void release(std::size_t index) noexcept override;

  // Where local rank `rank` has the byte that is at `address` on this rank; null if [address, address + bytes) is not
  // inside one window. Ranks that ask for corresponding addresses all get null or all get an address.
  std::byte* on_rank(int rank, const void* address, Size bytes) const;

  // Returns `count` words in a window, initially zero. All ranks must call it in the same order.
  std::uint32_t* take_words(Size count);
  // A word in device memory whose value is 1.
  const std::uint32_t* one() const { return words_; }
  // Releases streams that wait for a word from a dead peer: a new thread repeatedly writes 1 to all taken words for
  // some seconds. No exchange may follow.
  void release_waits() noexcept;

 private:
  struct Window {
    std::byte* memory = nullptr;
    Size bytes = 0;
    ncclWindow_t handle = nullptr;
    std::vector<std::byte*> peers;  // its address on each rank of this host, as this device sees it
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
  std::map<const std::byte*, Window> live_;  // by first byte
};

// Makes windows for all ranks of `control`; if that is impossible, returns the reason. `grid`: the hosts of the group
// that uses them. All ranks must call it at the same time.
struct Windows {
  std::shared_ptr<WindowMemory> memory;
  std::string why_none;
};
Windows make_windows(std::shared_ptr<GroupBackend> control, const std::shared_ptr<NcclCommunicator>& parent,
                     const HostGrid& grid, Device device);

}  // namespace lt::comm
