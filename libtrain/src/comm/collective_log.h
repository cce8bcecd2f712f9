// The totals of the process's collectives. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "libtrain/comm/group.h"

namespace lt {

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
