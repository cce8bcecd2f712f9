// The one way to time calls. The host's clock times calls whose work ends when they return. On CUDA, the device's clock
// times the work that calls enqueue on the compute stream.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::bench {

inline double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class F>
double time_ms(F&& f) {
  const double start = now_ms();
  f();
  return now_ms() - start;
}

// The shortest of `calls` calls.
template <class F>
double best_ms(int calls, F&& f) {
  double best = time_ms(f);
  for (int i = 1; i < calls; ++i) best = std::min(best, time_ms(f));
  return best;
}

// On CUDA, one time is the mean of this many calls in a row. A single call's time would include its launch.
inline constexpr int kCallsInARow = 10;

template <class F>
double time_ms(Device device, F&& f) {
  if (device.type != DeviceType::cuda) return time_ms(f);
  const Stream stream = Stream::compute(device);
  const TimePoint begin = TimePoint::on(stream);
  for (int i = 0; i < kCallsInARow; ++i) f();
  return TimePoint::on(stream).ms_since(begin) / kCallsInARow;
}

// Calls f `warmup` times, then `iterations` times, and returns the times of the latter. Either loop stops early once it
// has taken longer than `budget_ms`, but makes at least one warm-up call and three counted calls, or all that were
// requested.
template <class F>
std::vector<double> time_calls(Size warmup, Size iterations, double budget_ms, F&& f, Device device = kCpu) {
  const auto run = [&](Size most, Size least) {
    std::vector<double> ms;
    for (double total = 0; static_cast<Size>(ms.size()) < most;) {
      if (total > budget_ms && static_cast<Size>(ms.size()) >= least) break;
      ms.push_back(time_ms(device, f));
      total += ms.back();
    }
    return ms;
  };
  run(warmup, 1);
  return run(iterations, 3);
}

}  // namespace lt::bench
