// Elapsed time and time of day in seconds.
#pragma once

#include <chrono>

namespace lt::device {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Seconds since an arbitrary time point, the same for all processes of a host.
inline double monotonic_seconds() { return seconds_since({}); }

// Seconds since 1970, from the wall clock.
inline double since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace lt::device
