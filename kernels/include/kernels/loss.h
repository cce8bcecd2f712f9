// Softmax and cross-entropy over the last dimension.
#pragma once

#include <cstdint>

#include "kernels/common.h"

namespace lt::kernels {

// y_RC = softmax(x_RC) over C. y may be x.
template <class S>
void softmax_forward(S stream, DType dtype, void* y_RC, const void* x_RC, Size R, Size C);
// dx_RC (+)= y * (dy - sum_C(dy * y)).
template <class S>
void softmax_backward(S stream, DType dtype, void* dx_RC, const void* dy_RC, const void* y_RC, Size R, Size C,
                      bool accumulate);

// losses_M = log(sum_V exp(logits_MV)) - logits_MV[target_M]; lse_M is the first term. Both are f32 (f64 for f64).
template <class S>
void cross_entropy_forward(S stream, DType dtype, void* losses_M, void* lse_M, const void* logits_MV,
                           const std::int32_t* targets_M, Size M, Size V);
// dlogits_MV (+)= scale * d_loss[0] * (exp(logits - lse) - [v = target]). d_loss is one element of the losses' type, or
// null for 1. dlogits may be logits (without accumulate).
struct CrossEntropyBackward {
  DType dtype;
  Size M, V;
  void* dlogits_MV;
  const void *logits_MV, *lse_M;
  const std::int32_t* targets_M;
  const void* d_loss;
  double scale;
  bool accumulate = false;
};
template <class S>
void cross_entropy_backward(S stream, const CrossEntropyBackward& loss);

}  // namespace lt::kernels
