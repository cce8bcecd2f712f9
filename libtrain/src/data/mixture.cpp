// Assigns samples to sources.
#include "data/mixture.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "libtrain/error.h"

namespace lt::data {
namespace {

constexpr double kUnit = 1e6;  // six decimals

Size in_units(double weight, std::size_t index) {
  const double units = std::round(weight * kUnit);
  if (!(units >= 1 && units < 1e15) || std::abs(weight * kUnit - units) > 1e-9 * units) {
    throw UsageError(
        "data", fmt::format("weights[{}]: expected a number above 0 with at most six decimals, got {}", index, weight));
  }
  return static_cast<Size>(units);
}

}  // namespace

std::vector<Size> Mixture::shares_of(const std::vector<double>& weights) {
  std::vector<Size> shares;
  Size divisor = 0;
  for (const double weight : weights) {
    shares.push_back(in_units(weight, shares.size()));
    divisor = std::gcd(divisor, shares.back());
  }
  for (Size& share : shares) share /= divisor;
  return shares;
}

Mixture::Mixture(const std::vector<double>& weights) : shares_(shares_of(weights)) {
  for (const Size share : shares_) {
    period_ += share;
    if (period_ <= kMostPeriod) continue;
    throw UsageError("data",
                     fmt::format("weights: expected ratios of integers whose sum is at most {}, got more", kMostPeriod),
                     "weights with fewer digits, such as shares of 1 with three decimals");
  }
  const Size sources = static_cast<Size>(shares_.size());
  std::vector<Size> counts(shares_.size(), 0);
  table_.reserve(static_cast<std::size_t>(period_));
  // Sample n, from 1, goes to the source whose share demands it first, among those that have fallen behind their share
  // by at least 1 / (2 sources - 2). All terms are multiplied by (2 sources - 2) times the period, and so are integers.
  const Size m = 2 * sources - 2;
  for (Size n = 1; n <= period_; ++n) {
    Size best = -1, best_slack = 0;
    for (Size s = 0; s < sources; ++s) {
      const auto i = static_cast<std::size_t>(s);
      const Size behind = m * (shares_[i] * n - period_ * counts[i]), slack = (m - 1) * period_ - behind;
      if (behind < period_ && sources > 1) continue;
      // slack / share is the time left; compare without a division.
      if (best < 0 || slack * shares_[static_cast<std::size_t>(best)] < best_slack * shares_[i]) {
        best = s, best_slack = slack;
      }
    }
    table_.push_back(
        {static_cast<std::int32_t>(best), static_cast<std::int32_t>(counts[static_cast<std::size_t>(best)]++)});
  }
}

Mixture::SourceSample Mixture::at(Size sample) const {
  const Entry& entry = table_[static_cast<std::size_t>(sample % period_)];
  return {entry.source, sample / period_ * shares_[static_cast<std::size_t>(entry.source)] + entry.count};
}

Size Mixture::sample_of(Size source, Size count) const {
  const Size share = shares_[static_cast<std::size_t>(source)];
  Size at = 0;
  for (const Entry& entry : table_) {
    if (entry.source == source && entry.count == count % share) break;
    ++at;
  }
  return count / share * period_ + at;
}

}  // namespace lt::data
