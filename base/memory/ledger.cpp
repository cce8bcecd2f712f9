// Keeps one ledger per device: live bytes by owner, and their high-water marks.
#include "memory/ledger.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace lt::memory {
namespace {

Size& held(MemoryUse& use, MemoryOwner owner) { return use.by_owner[static_cast<std::size_t>(owner)]; }

struct Ledger {
  std::mutex mutex;
  MemoryUse live, peak, peak_by_owner;

  // The peak is the moment of the highest total. Inside an arena the total is constant, so among equal totals the
  // moment with the least slack counts.
  void mark(MemoryOwner owner) {
    const bool higher = live.total > peak.total;
    if (higher || (live.total == peak.total && live.of(MemoryOwner::slack) < peak.of(MemoryOwner::slack))) peak = live;
    held(peak_by_owner, owner) = std::max(held(peak_by_owner, owner), live.of(owner));
    peak_by_owner.total = peak.total;
  }
};

// Never destroyed: a tensor in a static variable may be freed after any other static object.
Ledger& ledger(Device device) {
  static auto& ledgers = *new std::map<std::pair<int, int>, Ledger>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  return ledgers[{static_cast<int>(device.type), device.index}];
}

template <class F>
auto locked(Device device, F f) {
  Ledger& entry = ledger(device);
  const std::lock_guard lock(entry.mutex);
  return f(entry);
}

}  // namespace

void ledger_add(Device device, MemoryOwner owner, Size bytes) {
  locked(device, [&](Ledger& entry) {
    held(entry.live, owner) += bytes;
    entry.live.total += bytes;
    entry.mark(owner);
  });
}

void ledger_move(Device device, MemoryOwner from, MemoryOwner to, Size bytes) {
  locked(device, [&](Ledger& entry) {
    held(entry.live, from) -= bytes;
    held(entry.live, to) += bytes;
    entry.mark(to);
  });
}

}  // namespace lt::memory

namespace lt {

MemoryUse memory_live(Device device) {
  return memory::locked(device, [](memory::Ledger& entry) { return entry.live; });
}
MemoryUse memory_peak(Device device) {
  return memory::locked(device, [](memory::Ledger& entry) { return entry.peak; });
}
MemoryUse memory_peak_by_owner(Device device) {
  return memory::locked(device, [](memory::Ledger& entry) { return entry.peak_by_owner; });
}
void reset_memory_peak(Device device) {
  memory::locked(device, [](memory::Ledger& entry) { entry.peak = entry.peak_by_owner = entry.live; });
}

}  // namespace lt
