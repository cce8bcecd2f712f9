// What an optimizer's update reads from the memory of its device: the host never waits for a number of the step.
#pragma once

#include <cstdint>

namespace lt {

inline constexpr int kMaxBetas = 4;
inline constexpr int kMaxOptimizerGroups = 16;

struct StepNumbers {
  float lr = 0;              // the step's learning rate
  float gradient_scale = 1;  // multiplies every gradient: clipping, and the inverse of the loss scale
  float skip = 0;            // not 0: the update leaves everything as it is
  float bias[kMaxBetas] = {1, 1, 1,
                           1};  // 1 - beta^n at the n-th update, for each of Optimizer::betas (Adam's bias correction)
  std::int32_t step = 1;        // from 1 on
};

}  // namespace lt
