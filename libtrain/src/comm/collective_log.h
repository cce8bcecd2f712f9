// The totals of the process's collectives, and of those that a CUDA graph captures. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "libtrain/comm/group.h"

namespace lt::comm {

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

// The collectives that this thread makes in `body`, which take_comm_lap() then leaves out. For the capture of a CUDA
// graph: their times come with its launches, so none are added up before.
CommLap comm_lap_of(const std::function<void()>& body);
// Counts a launch of a CUDA graph that captured the collectives of `lap`.
void repeat_comm_lap(const std::shared_ptr<const CommLap>& lap);

}  // namespace lt::comm
