// The last collectives of a group and the totals of the process. Thread-safe: a watchdog may read while ranks work.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "libtrain/group.h"

namespace lt {

class CollectiveLog {
 public:
  void add(CollectiveOp op, std::string_view name, Size bytes);
  // Oldest first, at most Group::kLogLength.
  std::vector<CollectiveRecord> last() const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t next_ = 0;
  std::vector<CollectiveRecord> ring_;
};

// Add to what take_comm_lap() returns: a call that starts, and the times of one that was waited for.
void count_collective(CollectiveOp op, Size bytes);
void count_times(CollectiveTimes times);

// Adds the time of its scope to what take_waiting_ms() returns.
class WaitingScope {
 public:
  ~WaitingScope();

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace lt
