// Scaled rotary positions, which extend a model trained on short sequences to longer ones.
#pragma once

#include <cstdint>

#include "libtrain/api.h"

namespace LT_API lt {

struct RopeScaling {
  enum class Kind : std::uint8_t {
    none,
    linear,  // divides all angles by `factor` (Chen et al. 2023)
    llama3,  // divides angles of slow rotations by `factor`, keeps fast ones, interpolates between (Llama 3.1)
  };
  Kind kind = Kind::none;
  double factor = 1;
  // llama3 only. A rotation is slow if it turns fewer than `low` times within `original` positions, and fast if it
  // turns more than `high` times.
  double low = 1, high = 4, original = 8192;

  bool operator==(const RopeScaling&) const = default;

  // Returns the scaled angle per position, in radians, of a channel pair that turns by `rate` radians without scaling.
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
