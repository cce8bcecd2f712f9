// How ways to compute a product are compared by their time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "device/cuda.h"
#include "libtrain/device/device.h"

namespace lt::kernels {

inline constexpr double kBetter = 0.98;  // share of the other's time; a smaller gain may be noise

// Mean time of `calls` calls together, after one untimed call.
template <class Launch>
double mean_ms(CudaStream stream, int calls, const Launch& launch) {
  const Stream compute = Stream::compute({DeviceType::cuda, stream.device});
  launch();
  const TimePoint begin = TimePoint::on(compute);
  for (int call = 0; call < calls; ++call) launch();
  return TimePoint::on(compute).ms_since(begin) / calls;
}

// In a burst of four calls, or thoroughly over 0.1 s. A device that reaches its power limit slows its clock, so then
// the energy of a call counts too.
template <class Launch>
double typical_ms(CudaStream stream, bool thorough, const Launch& launch) {
  constexpr double kThoroughMs = 100, kLeastMs = 0.01;
  constexpr int kCalls = 4;
  const double burst_ms = mean_ms(stream, kCalls, launch);
  if (!thorough) return burst_ms;
  return mean_ms(stream, std::max(kCalls, static_cast<int>(kThoroughMs / std::max(burst_ms, kLeastMs))), launch);
}

// The best in bursts of launch(0) to launch(count - 1), but the first unless another is better than that. count > 0.
template <class Launch>
std::size_t fastest_in_bursts(CudaStream stream, std::size_t count, const Launch& launch) {
  std::size_t best = 0;
  double first_ms = 0, best_ms = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double ms = typical_ms(stream, false, [&] { launch(i); });
    if (i == 0) first_ms = best_ms = ms;
    if (ms < best_ms && ms < kBetter * first_ms) best = i, best_ms = ms;
  }
  return best;
}

// The best over 0.1 s, twice in turn, of the eight that are the fastest in bursts. The device is as warm as in
// training.
template <class Launch>
std::size_t fastest_when_warm(CudaStream stream, std::size_t count, const Launch& launch) {
  constexpr std::size_t kFinalists = 8;
  const auto ms_of = [&](std::size_t i, bool thorough) { return typical_ms(stream, thorough, [&] { launch(i); }); };
  ms_of(0, true);
  std::vector<std::pair<double, std::size_t>> times;
  for (std::size_t i = 0; i < count; ++i) times.push_back({ms_of(i, false), i});
  std::sort(times.begin(), times.end());
  times.resize(std::min(count, kFinalists));
  for (auto& [ms, i] : times) ms = ms_of(i, true);
  for (auto& [ms, i] : times) ms += ms_of(i, true);
  return std::min_element(times.begin(), times.end())->second;
}

}  // namespace lt::kernels
