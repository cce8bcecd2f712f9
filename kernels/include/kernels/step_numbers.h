// The numbers of a step, computed on the device from its losses and gradients.
#pragma once

#include "kernels/common.h"
#include "libtrain/kernels/step_numbers.h"

namespace lt::kernels {

// What the host says before a step, of number `step` from 1 on.
struct StepRates {
  float lr;
  std::int32_t step;
};

// What stays the same over all steps, of each group of optimizers.
struct GroupRates {
  struct Group {
    float lr_scale = 1;
    float betas[kMaxBetas] = {};  // 0: none
  };
  int count = 1;
  Group groups[kMaxOptimizerGroups] = {};
};

// Dynamic loss scaling (Micikevicius et al. 2018, section 3.2), in device memory. The gradients of a step are `scale`
// times as large as those of the loss. A step whose gradients are not finite is skipped and halves the scale, down to
// 1; kScaleSteps others in a row double it.
struct LossScaleState {
  float scale;
  std::int32_t steps;    // since the scale changed
  std::int32_t skipped;  // of all steps so far: those without an update
};
inline constexpr float kFirstLossScale = 65536;
inline constexpr std::int32_t kScaleSteps = 2000;

// norm[0] = sqrt of the sum of partials_n in order, over the loss scale; fills the numbers of each group from `rates`:
// lr = rates->lr * lr_scale;
// gradient_scale = clip / norm where clip > 0 and norm > clip, else 1, over the loss scale; skip = 1 where norm or
// loss[0] is not finite. Pointers are to device memory.
struct StepNumbersOf {
  StepNumbers* numbers_G;
  float* norm;
  const double* partials_n;
  Size n;
  const float* loss;
  float clip;
  const StepRates* rates;
  GroupRates groups;
  LossScaleState* scaling;  // that of the next step when it returns; null: a scale of 1
};
template <class S>
void step_numbers(S stream, const StepNumbersOf& step);

}  // namespace lt::kernels
