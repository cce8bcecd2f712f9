// Scaled rotary positions: how a model that was trained on short sequences is stretched to longer ones.
#pragma once

#include <cstdint>

#include "libtrain/api.h"

namespace LT_API lt {

struct RopeScaling {
  enum class Kind : std::uint8_t {
    none,
    linear,  // all angles are divided by the factor (Chen et al. 2023)
    llama3,  // slow rotations are divided by the factor, fast ones are not, between them is a ramp (Llama 3.1)
  };
  Kind kind = Kind::none;
  double factor = 1;
  // llama3 only. Rotations that turn fewer than `low` times within `original` positions are slow, those that turn more
  // than `high` times fast.
  double low = 1, high = 4, original = 8192;

  bool operator==(const RopeScaling&) const = default;

  // The angle per position of a pair that turns by `rate` without scaling.
  constexpr double scaled(double rate) const {
    if (kind == Kind::none) return rate;
    if (kind == Kind::linear) return rate / factor;
    constexpr double kTurn = 6.283185307179586;
    const double turns = original * rate / kTurn;
    if (turns < low) return rate / factor;
    if (turns > high) return rate;
    const double fast = (turns - low) / (high - low);
    return (1 - fast) * rate / factor + fast * rate;
  }
};

}  // namespace lt
