// The totals of the process's collectives. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "libtrain/comm/group.h"

namespace lt {

// Both add to the result of take_comm_lap(): a call that starts, and the times of a call that was waited for.
void count_collective(CollectiveOp op, Size bytes);
void count_times(CollectiveTimes times);

// Adds the duration of its scope to the result of take_waiting_ms().
class WaitingScope {
 public:
  ~WaitingScope();

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace lt
