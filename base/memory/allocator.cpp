// The allocators of the CPU, CUDA devices and meta. A freed block is kept for the next request of its size, until the
// system has no memory left for another size. On the CPU the system seldom reports that, so the kept bytes are also
// bounded.
#include "memory/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device/cuda.h"
#include "device/fault.h"
#include "libtrain/error.h"
#include "memory/poison.h"
#include "memory/workspace.h"

namespace lt::memory {
namespace {

// Large blocks are aligned to and backed by huge pages, so that a pass over an activation causes fewer TLB misses.
constexpr Size kHugePage = Size{2} << 20;

std::atomic<Size> asked_system{0};

constexpr const char* kMemory = "memory";

InternalError no_memory(Size bytes) { return {kMemory, "the system has no " + std::to_string(bytes) + " bytes left"}; }

void* allocate_from_system(Size bytes) {
  const Size alignment = bytes >= kHugePage ? kHugePage : kAllocationAlignment;
  void* block = nullptr;
  if (::posix_memalign(&block, static_cast<std::size_t>(alignment), static_cast<std::size_t>(bytes)) != 0) {
    throw no_memory(bytes);
  }
  if (alignment == kHugePage) ::madvise(block, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  return block;
}

class CachingAllocator : public Allocator {
 public:
  void trim() {
    FreeBlocks kept;  // other threads need not wait until it is returned
    {
      const std::lock_guard lock(mutex_);
      kept.swap(free_), kept_bytes_ = 0;
    }
    for (const auto& [bytes, blocks] : kept) {
      for (void* block : blocks) give_to_system(block, bytes);
    }
  }

  void* allocate(Size bytes) override {
    if (device::fault_fails_allocation()) throw no_memory(bytes);
    bool keeps_too_much = false;
    {
      const std::lock_guard lock(mutex_);
      auto found = free_.find(bytes);
      if (found != free_.end() && !found->second.empty()) {
        void* block = found->second.back();
        found->second.pop_back();
        kept_bytes_ -= bytes;
        reuse(block, bytes);
        return count(block, bytes);
      }
      keeps_too_much = kept_bytes_ > most_kept(peak_bytes_);
    }
    if (keeps_too_much) trim();
    void* const block = ask_system_twice(bytes);
    const std::lock_guard lock(mutex_);
    return count(block, bytes);
  }

  void deallocate(void* block, Size bytes) override {
    keep(block, bytes);
    const std::lock_guard lock(mutex_);
    live_bytes_ -= bytes, kept_bytes_ += bytes;
    free_[bytes].push_back(block);
  }
  Size kept_bytes() {
    const std::lock_guard lock(mutex_);
    return kept_bytes_;
  }

 private:
  using FreeBlocks = std::unordered_map<Size, std::vector<void*>>;  // by their bytes

  void* count(void* block, Size bytes) {
    live_bytes_ += bytes, peak_bytes_ = std::max(peak_bytes_, live_bytes_);
    return block;
  }
  void* ask_system_twice(Size bytes) {
    try {
      return ask_system(bytes);
    } catch (const InternalError& error) {
      if (error.component() != kMemory) throw;
    }
    trim();
    return ask_system(bytes);
  }
  void* ask_system(Size bytes) {
    ++asked_system;
    return take_from_system(bytes);
  }
  // Throws InternalError of the component kMemory if the system has no memory left.
  virtual void* take_from_system(Size bytes) = 0;
  virtual void give_to_system(void* block, Size bytes) = 0;
  // If more is kept, all of it returns to the system before another block is taken. `peak`: the most that was live.
  virtual Size most_kept(Size peak) const { return (void)peak, std::numeric_limits<Size>::max(); }
  // Called when a block is kept, and when it is reused.
  virtual void keep(void*, Size) {}
  virtual void reuse(void*, Size) {}

  std::mutex mutex_;
  FreeBlocks free_;
  Size live_bytes_ = 0, peak_bytes_ = 0, kept_bytes_ = 0;
};

class CpuAllocator final : public CachingAllocator {
 public:
  ~CpuAllocator() override { trim(); }

 private:
  void* take_from_system(Size bytes) override { return allocate_from_system(bytes); }
  void give_to_system(void* block, Size bytes) override {
    unpoison(block, bytes);
    std::free(block);
  }
  Size most_kept(Size peak) const override { return peak + (Size{1} << 30); }
  void keep(void* block, Size bytes) override { poison(block, bytes); }
  void reuse(void* block, Size bytes) override { unpoison(block, bytes); }
};

// Hands out distinct addresses, which nobody reads.
class MetaAllocator final : public Allocator {
 public:
  void* allocate(Size bytes) override {
    const std::lock_guard lock(mutex_);
    rounding_bytes_ += rounding_bytes_of(bytes);
    void* block = reinterpret_cast<void*>(next_);
    next_ += static_cast<std::uintptr_t>(bytes);
    return block;
  }
  void deallocate(void*, Size bytes) override {
    const std::lock_guard lock(mutex_);
    rounding_bytes_ -= rounding_bytes_of(bytes);
  }
  Size rounding_bytes() {
    const std::lock_guard lock(mutex_);
    return rounding_bytes_;
  }

 private:
  static Size rounding_bytes_of(Size bytes) {
    constexpr Size kPage = Size{2} << 20;
    return bytes <= kPage / 2 ? 0 : (bytes + kPage - 1) / kPage * kPage - bytes;
  }

  std::mutex mutex_;
  std::uintptr_t next_ = std::uintptr_t{1} << 46;
  Size rounding_bytes_ = 0;
};

MetaAllocator& meta_allocator() {
  static auto& instance = *new MetaAllocator;
  return instance;
}

// Keeping blocks also avoids cudaFree(), which waits for the whole device; only trim() calls it. All users of a block
// are on the compute stream, or that stream waits for them before the block is freed, so the next user comes after
// them.
class CudaAllocator final : public CachingAllocator {
 public:
  explicit CudaAllocator(int device) : device_(device) { make_workspace(device); }

 private:
  void* take_from_system(Size bytes) override { return device::cuda::allocate(device_, bytes); }
  void give_to_system(void* block, Size) override { device::cuda::deallocate(device_, block); }

  int device_;
};

CudaAllocator& cuda_allocator(int device) {
  static auto& allocators = *new std::unordered_map<int, CudaAllocator>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  return allocators.try_emplace(device, device).first->second;
}

CpuAllocator& cpu_allocator() {
  static auto& instance = *new CpuAllocator;
  return instance;
}

}  // namespace

Allocator& allocator(Device device) {
  require_device(device);
  if (device.is_meta()) return meta_allocator();
  if (device.type == DeviceType::cuda) return cuda_allocator(device.index);
  return cpu_allocator();
}

void trim(Device device) {
  if (device.type == DeviceType::cpu) cpu_allocator().trim();
  if (device.type == DeviceType::cuda) cuda_allocator(device.index).trim();
}

Size kept_bytes() { return cpu_allocator().kept_bytes(); }

Size meta_rounding_bytes() { return meta_allocator().rounding_bytes(); }

Size system_allocations() { return asked_system; }

}  // namespace lt::memory
