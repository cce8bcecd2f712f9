// Computes the numbers of a step (rates, scale of the gradients, skip flag) on the device, from its losses and
// gradients.
#pragma once

#include "kernels/common.h"
#include "libtrain/kernels/step_numbers.h"

namespace lt::kernels {

// Set by the host before each step. `step` counts from 1.
struct StepRates {
  float lr;
  std::int32_t step;
  std::uint64_t samples;  // samples that the run took before this step, over all ranks
};

// Settings of each optimizer group that stay the same over all steps.
struct GroupRates {
  struct Group {
    float lr_scale = 1;
    float betas[kMaxBetas] = {};  // 0: unused
  };
  int count = 1;
  Group groups[kMaxOptimizerGroups] = {};
};

// Dynamic loss scaling (Micikevicius et al. 2018, section 3.2), in device memory. The gradients of a step are `scale`
// times the gradients of the loss. A step with non-finite gradients is skipped and halves the scale, down to 1;
// kScaleSteps updates in a row without such a step double it.
struct LossScaleState {
  float scale;
  std::int32_t steps;  // updates since the scale changed
};
inline constexpr float kFirstLossScale = 65536;
inline constexpr std::int32_t kScaleSteps = 2000;

// norm[0] = sqrt of the sum of partials_n in order, over the loss scale. Fills each group's numbers from `rates`:
// lr = rates->lr * lr_scale;
// gradient_scale = (clip / norm if clip > 0 and norm > clip, else 1) / loss scale;
// skip = 1 if norm or loss[0] is not finite or target_weight[0] is 0, else 0. Pointers are to device memory.
struct StepNumbersOf {
  StepNumbers* numbers_G;
  float* norm;
  const double* partials_n;
  Size n;
  const float* loss;
  float clip;
  const StepRates* rates;
  GroupRates groups;
  const float* target_weight = nullptr;  // 0: all targets are ignored, so the step is skipped; null: 1
  std::int32_t* skipped;                 // steps without an update; on return, including this one
  LossScaleState* scaling = nullptr;     // on return, the state of the next step; null: a scale of 1
};
template <class S>
void step_numbers(S stream, const StepNumbersOf& step);

// to[0] = the loss of a micro-batch, which has `dtype`. `bad_id` is the word of an id check, or null; if the word is
// not 0, to[0] = NaN. So a step with an id outside its table updates nothing on any rank.
template <class S>
void keep_loss(S stream, float* to, DType dtype, const void* loss, const std::uint64_t* bad_id);

}  // namespace lt::kernels
