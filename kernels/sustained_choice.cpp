// Takes the times of each round and drops the slow ways after it.
#include "kernels/sustained_choice.h"

#include <algorithm>
#include <vector>

namespace lt::kernels {
namespace {

constexpr double kWarmMs = 100, kAdaptMs = 20;
constexpr double kMostBehind = 1.12, kFarBehind = 1.15, kBetter = 0.99, kLeastMs = 1e-3;
constexpr std::size_t kWaysToReference = 8;

struct Way {
  std::size_t index;
  double ms;  // of a call
};

int calls_in(double ms, double call_ms) { return std::max(2, static_cast<int>(ms / std::max(call_ms, kLeastMs))); }

std::vector<Way> in_bursts(std::size_t count, const MeanMs& mean_ms) {
  std::vector<Way> ways;
  const double reference = mean_ms(0, 1);
  double clock = 1, least = reference;  // `clock`: the factor of the times since the last call of way 0
  for (std::size_t i = 0; i < count; ++i) {
    if (i % kWaysToReference == 0) {
      mean_ms(0, 1);
      clock = std::max(mean_ms(0, 1), kLeastMs) / std::max(reference, kLeastMs);
    }
    const double once = mean_ms(i, 1) / clock;
    const bool is_far_behind = i > 0 && once > kFarBehind * least;
    const double ms = is_far_behind ? once : mean_ms(i, 2) / clock;
    least = std::min(least, ms);
    ways.push_back({i, ms});
  }
  return ways;
}

// Leaves way 0 and the `most` fastest of those that are not too far behind.
void leave_fastest(std::vector<Way>& ways, std::size_t most) {
  std::sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) { return a.ms < b.ms; });
  const double limit = kMostBehind * ways.front().ms;
  std::vector<Way> left;
  for (const Way& way : ways) {
    if (way.index == 0 || (left.size() < most && way.ms <= limit)) left.push_back(way);
  }
  ways = left;
}

// Each round starts with another way, so that slow changes of the temperature affect all alike.
void time_sustained(std::vector<Way>& ways, std::size_t rounds, double counted_ms, const MeanMs& mean_ms) {
  std::vector<double> sums(ways.size());
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const std::size_t at = (i + round * ways.size() / rounds) % ways.size();
      mean_ms(ways[at].index, calls_in(kAdaptMs, ways[at].ms));
      sums[at] += mean_ms(ways[at].index, calls_in(counted_ms, ways[at].ms));
    }
  }
  for (std::size_t i = 0; i < ways.size(); ++i) ways[i].ms = sums[i] / static_cast<double>(rounds);
}

}  // namespace

SustainedChoice fastest_when_sustained(std::size_t count, const MeanMs& mean_ms) {
  mean_ms(0, calls_in(kWarmMs, mean_ms(0, 2)));
  std::vector<Way> ways = in_bursts(count, mean_ms);
  leave_fastest(ways, 16);
  time_sustained(ways, 1, 60, mean_ms);
  leave_fastest(ways, 4);
  time_sustained(ways, 2, 100, mean_ms);
  leave_fastest(ways, 1);
  const Way first = *std::find_if(ways.begin(), ways.end(), [](const Way& way) { return way.index == 0; });
  const Way fastest = ways.front();
  return fastest.ms <= kBetter * first.ms ? SustainedChoice{fastest.index, first.ms, fastest.ms}
                                          : SustainedChoice{0, first.ms, first.ms};
}

}  // namespace lt::kernels
