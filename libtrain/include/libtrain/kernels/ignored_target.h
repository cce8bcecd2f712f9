// The value of a target that a loss ignores.
#pragma once

#include <cstdint>

#include "libtrain/api.h"

namespace LT_API lt {

// A target with this value adds nothing to the loss, to gradients or to the number of targets that a mean divides by.
inline constexpr std::int32_t kIgnoredTarget = -100;

}  // namespace lt
