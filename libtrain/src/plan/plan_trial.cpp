// Judges plans, and searches for the largest micro-batch that fits.
#include "plan/plan_trial.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lt::planner {
namespace {

// The largest divisor of `samples` that is at most `most`.
Size divisor(Size samples, Size most) {
  Size best = 0;
  for (Size d = 1; d <= std::min(samples, most); ++d) {
    if (samples % d == 0) best = d;
  }
  return best;
}

}  // namespace

Size Trial::limit_bytes(const Plan& plan) const {
  const Size most = std::numeric_limits<Size>::max();
  const Size asked = memory_bytes_ == 0 ? most : memory_bytes_, has = plan.device_bytes == 0 ? most : plan.device_bytes;
  return std::min(asked, has) - plan.outside_bytes;
}

FitTry Trial::judged(const Plan& plan) const {
  // On the CPU copies of the state lie in the same memory.
  const Size peak_bytes = plan.peak_bytes + (plan.machine.device == "cpu" ? plan.host_bytes : 0);
  return {.micro_batch = plan.micro_batch,
          .accum = plan.accum,
          .shard_size = plan.shard_size,
          .peak_bytes = peak_bytes,
          .missing_bytes = std::max<Size>(0, peak_bytes - limit_bytes(plan)),
          .tokens_per_s = plan.tokens_per_s,
          .step_ms = plan.step_time.total_ms()};
}

// Gradients that accumulate may take memory, so what fits may be smaller than without accumulation.
std::optional<FitTry> Trial::largest(const Config& given, Size first, Size samples) {
  if (samples == 0) return largest_up_to(kMostFitSamples, given, first);
  Config config = given;
  config.train.accum = 1;
  const std::optional<FitTry> alone = largest_up_to(std::min(samples, kMostFitSamples), config, first);
  for (Size most = alone ? alone->micro_batch : 0; most > 0; most = config.train.micro_batch - 1) {
    config.train.micro_batch = divisor(samples, most);
    config.train.accum = samples / config.train.micro_batch;
    const std::optional<FitTry> tried = attempt(config);
    if (tried && tried->missing_bytes == 0) return tried;
  }
  return std::nullopt;
}

// Growing steps from `first`, then bisection.
std::optional<FitTry> Trial::largest_up_to(Size most, Config config, Size first) {
  std::optional<FitTry> found;
  Size fitting = 0, too_many = 0;  // too_many 0: not known
  for (Size at = std::clamp<Size>(first, 1, most), stride = 1; at > 0;) {
    config.train.micro_batch = at;
    const std::optional<FitTry> tried = attempt(config);
    if (tried && tried->missing_bytes == 0) {
      found = tried, fitting = at;
      if (fitting == most) break;
    } else {
      too_many = at;
    }
    if (too_many > 0 && too_many - fitting <= 1) break;
    if (too_many == 0) {
      at = std::min(at + stride, most), stride *= 2;
    } else if (fitting == 0) {
      at = std::max<Size>(1, at - stride), stride *= 2;
    } else {
      at = (fitting + too_many) / 2;
    }
  }
  return found;
}

std::optional<FitTry> Trial::attempt(const Config& config) {
  try {
    Plan plan = this->plan(config);
    const FitTry tried = judged(plan);
    if (!first_plan_) first_plan_ = std::move(plan);
    return tried;
  } catch (const UsageError& error) {
    if (!refusal_) refusal_ = error;
    return std::nullopt;
  }
}

// Sums of the same times in another order are equal.
bool better(const FitTry& a, const FitTry& b) {
  constexpr double kEqual = 1 + 1e-9;
  if (a.missing_bytes != b.missing_bytes) return a.missing_bytes < b.missing_bytes;
  return a.tokens_per_s > kEqual * b.tokens_per_s;
}

}  // namespace lt::planner
