// Computes the numbers of a step, with the same arithmetic on every device.
#pragma once

#include <cmath>

#include "kernels/on_device.h"
#include "kernels/step_numbers.h"

namespace lt::kernels {

// Computes the norm and each group's numbers from the norm of the scaled gradients. Updates a dynamic loss scale.
LT_ON_DEVICE inline void fill_numbers(const StepNumbersOf& of, double scaled_norm) {
  const GroupRates& groups = of.groups;
  const StepRates rates = *of.rates;
  const float loss = *of.loss, clip = of.clip;
  LossScaleState* const scaling = of.scaling;
  const float scale = scaling != nullptr ? scaling->scale : 1.0f;
  const float value = static_cast<float>(scaled_norm / static_cast<double>(scale));
  const bool finite = std::isfinite(value) && std::isfinite(loss);
  const bool learns = of.target_weight == nullptr || *of.target_weight != 0;
  // The number of updates, this one included. Skipped steps do not enter moving averages. At least 1, even if the count
  // restarts.
  const std::int32_t counted = rates.step - *of.skipped;
  const double updates = counted > 1 ? counted : 1;
  *of.norm = value;
  for (int g = 0; g < groups.count; ++g) {
    StepNumbers& numbers = of.numbers_G[g];
    for (int i = 0; i < kMaxBetas; ++i) {
      const float beta = groups.groups[g].betas[i];
      numbers.bias[i] = beta == 0 ? 1.0f : static_cast<float>(1 - std::pow(static_cast<double>(beta), updates));
    }
    numbers.lr = rates.lr * groups.groups[g].lr_scale, numbers.step = rates.step;
    numbers.gradient_scale = (clip > 0 && value > clip ? clip / value : 1.0f) / scale;
    numbers.skip = finite && learns ? 0.0f : 1.0f;
  }
  if (!(finite && learns)) ++*of.skipped;
  if (scaling == nullptr) return;
  if (!finite) {
    scaling->scale = scale > 1 ? scale / 2 : 1.0f, scaling->steps = 0;
  } else if (learns && ++scaling->steps >= kScaleSteps) {
    scaling->scale = std::isfinite(scale * 2) ? scale * 2 : scale, scaling->steps = 0;
  }
}

LT_ON_DEVICE inline float loss_or_nan(double loss, const std::uint64_t* bad_id) {
  return bad_id != nullptr && *bad_id != 0 ? NAN : static_cast<float>(loss);
}

}  // namespace lt::kernels
