// Choosing the fastest of several ways to compute the same result, on a simulated GPU with a power limit.
#include "kernels/sustained_choice.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "test_main/catch.h"

using lt::kernels::fastest_when_sustained;
using lt::kernels::SustainedChoice;

namespace {

struct Way {
  double burst_ms;   // of a call at the full clock
  double energy_ms;  // of a call at the power limit, if its energy alone decided
};

// Lowers its clock within some milliseconds to that at which the calls' energy fits.
class Gpu {
 public:
  explicit Gpu(std::vector<Way> ways) : ways_(std::move(ways)), calls_(ways_.size()) {}

  double mean_ms(std::size_t index, int calls) {
    const Way& way = ways_[index];
    const double goal = std::min(1.0, way.burst_ms / way.energy_ms);
    double sum = 0;
    for (int call = 0; call < calls; ++call) {
      const double ms = way.burst_ms / clock_;
      clock_ += (goal - clock_) * (1 - std::exp(-ms / 4));
      sum += ms;
    }
    calls_[index] += calls;
    return sum / calls;
  }
  int calls(std::size_t index) const { return calls_[index]; }

 private:
  std::vector<Way> ways_;
  std::vector<int> calls_;
  double clock_ = 1;
};

SustainedChoice choose(Gpu& gpu, std::size_t count) {
  return fastest_when_sustained(count, [&](std::size_t way, int calls) { return gpu.mean_ms(way, calls); });
}

}  // namespace

TEST_CASE("sustained choice: the least time at the power limit, not in a burst", "[kernels]") {
  Gpu gpu({{0.45, 0.50}, {0.40, 0.56}, {0.43, 0.47}, {0.48, 0.42}});
  const SustainedChoice chosen = choose(gpu, 4);
  CHECK(chosen.way == 2);
  CHECK(chosen.first_ms == Approx(0.50).epsilon(0.01));
  CHECK(chosen.ms == Approx(0.47).epsilon(0.01));
}

TEST_CASE("sustained choice: the first way unless another is better by a percent", "[kernels]") {
  Gpu gpu({{0.45, 0.500}, {0.44, 0.498}, {0.40, 0.56}});
  const SustainedChoice chosen = choose(gpu, 3);
  CHECK(chosen.way == 0);
  CHECK(chosen.ms == chosen.first_ms);
  Gpu alone({{0.45, 0.5}});
  CHECK(choose(alone, 1).way == 0);
}

TEST_CASE("sustained choice: ways that are far behind get a burst only, the first one more", "[kernels]") {
  std::vector<Way> ways = {{0.9, 0.7}};                                    // the first
  for (int i = 0; i < 60; ++i) ways.push_back({0.40 + 0.0005 * i, 0.55});  // 16 of these stay
  ways.push_back({0.50, 0.50});                                            // more than 15 % behind
  Gpu gpu(ways);
  const SustainedChoice chosen = choose(gpu, ways.size());
  CHECK(chosen.way != 0);
  CHECK(chosen.first_ms == Approx(0.9).epsilon(0.01));
  CHECK(chosen.ms == Approx(0.55).epsilon(0.01));
  CHECK(gpu.calls(ways.size() - 1) == 1);
  std::size_t sustained = 0;
  for (std::size_t i = 1; i < ways.size(); ++i) sustained += gpu.calls(i) > 3 ? 1 : 0;
  CHECK(sustained == 16);
}
