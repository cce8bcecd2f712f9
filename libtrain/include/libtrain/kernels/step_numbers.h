// The numbers of a step that an optimizer's update reads from device memory, so that the host never waits for them.
#pragma once

#include <cstdint>

#include "libtrain/api.h"

namespace LT_API lt {

inline constexpr int kMaxBetas = 4;
inline constexpr int kMaxOptimizerGroups = 16;

// The numbers of one step for one optimizer group.
struct StepNumbers {
  float lr = 0;              // learning rate of the step, times the group's lr_scale
  float gradient_scale = 1;  // factor for every gradient: clipping, and the inverse of the loss scale
  float skip = 0;            // nonzero: the update must change nothing
  // 1 - beta^n for each of Optimizer::betas (Adam's bias correction); 1 for unused entries. n is the number of updates,
  // including this one but not skipped steps.
  float bias[kMaxBetas] = {1, 1, 1, 1};
  std::int32_t step = 1;  // number of the step, from 1
};

}  // namespace lt
