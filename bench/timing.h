// The one way to time calls: of something that has ended when its call returns, and on CUDA, by the device's clock, of
// what calls give to the stream that computes.
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

// Calls in a row on CUDA that give one time, their mean: the start of a single one would count too.
inline constexpr int kCallsInARow = 10;

template <class F>
double time_ms(Device device, F&& f) {
  if (device.type != DeviceType::cuda) return time_ms(f);
  const Stream stream = Stream::compute(device);
  const TimePoint begin = TimePoint::on(stream);
  for (int i = 0; i < kCallsInARow; ++i) f();
  return TimePoint::on(stream).ms_since(begin) / kCallsInARow;
}

// Calls f `warmup` times and then `iterations` times, whose times it returns. What takes longer than `budget_ms` in one
// of the two has fewer calls, but at least one before and three counted ones, or all that were asked for.
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
