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
//   1. every way in a burst of two calls after a first one, or in the first call alone if that is far behind; calls of
//      way 0 in between cancel changes of the clock;
//   2. way 0 and the 16 fastest ways, without those more than 12 % slower than the fastest, for 80 ms;
//   3. way 0 and the four fastest of round 2, for 120 ms, twice.
// The first 20 ms of a timing, in which the clock adapts, are discarded. 500 ways of half a millisecond take 3 s.
// `count` must not be 0.
SustainedChoice fastest_when_sustained(std::size_t count, const MeanMs& mean_ms);

}  // namespace lt::kernels
