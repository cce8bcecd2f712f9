// The allocators of the CPU and of meta, and the ledger of who holds what. A freed CPU block is kept for the next
// request of the same size: shapes are static, so from the second step on no request reaches the system.
#include "core/allocator.h"

#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/poison.h"
#include "libtrain/error.h"

namespace lt {
namespace {

Size round_up(Size bytes) {
  return (bytes + kAllocationAlignment - 1) / kAllocationAlignment * kAllocationAlignment;
}

// Large blocks start at a huge page and ask for some: a pass over an activation then misses no small page's entry.
constexpr Size kHugePage = Size{2} << 20;

void* allocate_from_system(Size bytes) {
  const Size alignment = bytes >= kHugePage ? kHugePage : kAllocationAlignment;
  void* block = nullptr;
  if (::posix_memalign(&block, static_cast<std::size_t>(alignment), static_cast<std::size_t>(bytes)) != 0) {
    throw InternalError("memory", "the system has no " + std::to_string(bytes) + " bytes left");
  }
  if (alignment == kHugePage) ::madvise(block, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  return block;
}

class CpuAllocator final : public Allocator {
 public:
  ~CpuAllocator() override {
    for (auto& [bytes, blocks] : free_) {
      for (void* block : blocks) std::free(block);
    }
  }

  void* allocate(Size bytes) override {
    {
      const std::lock_guard lock(mutex_);
      auto found = free_.find(bytes);
      if (found != free_.end() && !found->second.empty()) {
        void* block = found->second.back();
        found->second.pop_back();
        unpoison(block, bytes);
        return block;
      }
    }
    return allocate_from_system(bytes);
  }

  void deallocate(void* block, Size bytes) override {
    poison(block, bytes);
    const std::lock_guard lock(mutex_);
    free_[bytes].push_back(block);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Size, std::vector<void*>> free_;
};

// Addresses that are distinct and never read.
class MetaAllocator final : public Allocator {
 public:
  void* allocate(Size bytes) override {
    const std::lock_guard lock(mutex_);
    void* block = reinterpret_cast<void*>(next_);
    next_ += static_cast<std::uintptr_t>(bytes);
    return block;
  }
  void deallocate(void*, Size) override {}

 private:
  std::mutex mutex_;
  std::uintptr_t next_ = std::uintptr_t{1} << 46;
};

struct Ledger {
  std::mutex mutex;
  MemoryUse live, peak, peak_by_owner;

  void add(MemoryOwner owner, Size bytes) {
    const std::lock_guard lock(mutex);
    const auto i = static_cast<std::size_t>(owner);
    live.by_owner[i] += bytes;
    live.total += bytes;
    if (live.total > peak.total) peak = live;
    if (live.by_owner[i] > peak_by_owner.by_owner[i]) peak_by_owner.by_owner[i] = live.by_owner[i];
    peak_by_owner.total = peak.total;
  }
};

// Never destroyed: a tensor in a static variable may outlive any order of destruction.
Ledger& ledger(Device device) {
  static auto& ledgers = *new std::map<std::pair<int, int>, Ledger>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  return ledgers[{static_cast<int>(device.type), device.index}];
}

thread_local MemoryOwner current_owner = MemoryOwner::activations;

}  // namespace

Allocator& allocator(Device device) {
  static auto& cpu = *new CpuAllocator;
  static auto& meta = *new MetaAllocator;
  require_device(device);
  if (device.is_meta()) return meta;
  return cpu;
}

MemoryOwner current_memory_owner() { return current_owner; }

MemoryScope::MemoryScope(MemoryOwner owner) : previous_(current_owner) { current_owner = owner; }
MemoryScope::~MemoryScope() { current_owner = previous_; }

Buffer::Buffer(Size bytes, Device device) : bytes_(round_up(bytes)), device_(device), owner_(current_owner) {
  block_ = bytes_ == 0 ? nullptr : allocator(device).allocate(bytes_);
  ledger(device).add(owner_, bytes_);
  if (device.type == DeviceType::cpu && bytes_ > bytes) poison(data() + bytes, bytes_ - bytes);
}

Buffer::~Buffer() {
  ledger(device_).add(owner_, -bytes_);
  if (block_ != nullptr) allocator(device_).deallocate(block_, bytes_);
}

MemoryUse memory_live(Device device) {
  Ledger& entry = ledger(device);
  const std::lock_guard lock(entry.mutex);
  return entry.live;
}

MemoryUse memory_peak(Device device) {
  Ledger& entry = ledger(device);
  const std::lock_guard lock(entry.mutex);
  return entry.peak;
}

MemoryUse memory_peak_by_owner(Device device) {
  Ledger& entry = ledger(device);
  const std::lock_guard lock(entry.mutex);
  return entry.peak_by_owner;
}

void reset_memory_peak(Device device) {
  Ledger& entry = ledger(device);
  const std::lock_guard lock(entry.mutex);
  entry.peak = entry.live;
  entry.peak_by_owner = entry.live;
}

}  // namespace lt
