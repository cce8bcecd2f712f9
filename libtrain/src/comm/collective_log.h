// Counts and times the process's collectives, including collectives in CUDA graphs. Thread-safe.
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

// Both add to the result of take_comm_lap(). Call the first when a collective starts, the second after waiting for it.
void count_collective(CollectiveOp op, Size bytes);
void count_times(CollectiveTimes times);

// Adds the duration of its scope to the result of take_waiting_ms().
class WaitingScope {
 public:
  ~WaitingScope();

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Runs `body` and returns the collectives that this thread makes in it. take_comm_lap() does not count them. For the
// capture of a CUDA graph: only its launches count (repeat_comm_lap()).
CommLap comm_lap_of(const std::function<void()>& body);
// Counts a launch of a CUDA graph that captured the collectives of `lap`.
void repeat_comm_lap(const std::shared_ptr<const CommLap>& lap);

}  // namespace lt::comm
