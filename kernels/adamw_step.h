// What one step of AdamW does alike on every device: its numbers, and the type of its copy.
#pragma once

#include <cmath>
#include <string>

#include "kernels/adamw.h"
#include "libtrain/error.h"

#ifdef __CUDACC__
#define LT_ON_DEVICE __host__ __device__
#else
#define LT_ON_DEVICE
#endif

namespace lt::kernels {

// Fills `scalars` and `norm` from the norm of the scaled gradients, and moves `scaling`, where not null, on.
LT_ON_DEVICE inline void fill_scalars(AdamWScalars* scalars, float* norm, double scaled_norm, float loss, float clip,
                                      const AdamWRates& rates, LossScaleState* scaling) {
  const float scale = scaling != nullptr ? scaling->scale : 1.0f;
  const float value = static_cast<float>(scaled_norm / static_cast<double>(scale));
  const bool finite = std::isfinite(value) && std::isfinite(loss);
  // Updates so far, this one included: Adam's averages know no other steps. (Where the steps were counted anew, at
  // least this one.)
  const std::int32_t counted = rates.step - (scaling != nullptr ? scaling->skipped : 0);
  const double updates = counted > 1 ? counted : 1;
  const float bias1 = static_cast<float>(1 - std::pow(static_cast<double>(rates.beta1), updates));
  const float bias2 = static_cast<float>(1 - std::pow(static_cast<double>(rates.beta2), updates));
  *norm = value;
  *scalars = {rates.lr, bias1, bias2, (clip > 0 && value > clip ? clip / value : 1.0f) / scale, finite ? 0.0f : 1.0f};
  if (scaling == nullptr) return;
  if (!finite) {
    *scaling = {scale > 1 ? scale / 2 : 1.0f, 0, scaling->skipped + 1};
  } else if (++scaling->steps >= kScaleSteps) {
    scaling->scale = std::isfinite(scale * 2) ? scale * 2 : scale, scaling->steps = 0;
  }
}

// f(copy) with the type of a copy; null for none.
template <class F>
void dispatch_copy(void* copy, DType dtype, F&& f) {
  if (copy == nullptr || dtype == DType::bf16) return f(static_cast<bf16*>(copy));
  if (dtype == DType::f16) return f(static_cast<f16*>(copy));
  throw InternalError("kernels",
                      "adamw_update: expected a copy in bf16 or f16, found " + std::string(dtype_name(dtype)));
}

}  // namespace lt::kernels
