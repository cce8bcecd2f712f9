// Chooses the fastest of several ways to compute the same result on a GPU at its power limit.
#pragma once

#include <cstddef>
#include <functional>

namespace lt::kernels {

// Returns the mean milliseconds per call when `way` is called `calls` times without a pause.
using MeanMs = std::function<double(std::size_t way, int calls)>;

struct SustainedChoice {
  std::size_t way;      // 0 unless another takes at most 99 % of its time
  double first_ms, ms;  // per call of way 0 and of `way`, over some tenths of a second
};

// At its power limit a GPU lowers its clock until the energy of the calls fits. So the fastest way in a burst may need
// more energy, and then more time, than another. The ways are timed in three rounds:
//   1. every way in a burst of two calls, between calls of way 0, so that changes of the clock cancel;
//   2. way 0 and the 36 fastest ways, without those more than 12 % slower than the fastest, for 80 ms, twice;
//   3. way 0 and the four fastest of round 2, for 120 ms, three times.
// The first 20 ms of a timing, in which the clock adapts, are discarded. 500 ways of half a millisecond take 9 s.
// `count` must not be 0.
SustainedChoice fastest_when_sustained(std::size_t count, const MeanMs& mean_ms);

}  // namespace lt::kernels
