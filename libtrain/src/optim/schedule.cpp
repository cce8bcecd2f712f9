// Learning-rate schedules, as pure functions of the step.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "libtrain/error.h"
#include "libtrain/optim/optimizer.h"

namespace lt {
namespace {

constexpr double kWsdTail = 0.1;  // share of the steps after warm-up over which `wsd` decays

}  // namespace

double Schedule::at(Size step) const {
  if (step < 1) throw UsageError("optim", "schedule: expected a step from 1, got " + std::to_string(step));
  if (step <= warmup) return lr * static_cast<double>(step) / static_cast<double>(warmup);
  const double after = static_cast<double>(step - warmup);
  const double length = std::max(1.0, static_cast<double>(steps - warmup));
  const double p = std::min(1.0, after / length);
  switch (decay) {
    case Decay::constant: return lr;
    case Decay::cosine: return min_lr + (lr - min_lr) * (1 + std::cos(std::numbers::pi * p)) / 2;
    case Decay::linear: return lr + (min_lr - lr) * p;
    case Decay::wsd: return lr + (min_lr - lr) * std::max(0.0, (p - (1 - kWsdTail)) / kWsdTail);
  }
  return lr;
}

}  // namespace lt
