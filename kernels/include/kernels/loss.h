// Softmax and cross-entropy over the last dimension.
#pragma once

#include <cstdint>

#include "kernels/common.h"
#include "kernels/id_check.h"
#include "libtrain/kernels/ignored_target.h"

namespace lt::kernels {

// y_RC = softmax(x_RC) over C. y may be x.
template <class S>
void softmax_forward(S stream, DType dtype, void* y_RC, const void* x_RC, Size R, Size C);
// dx_RC (+)= y * (dy - sum_C(dy * y)).
template <class S>
void softmax_backward(S stream, DType dtype, void* dx_RC, const void* dy_RC, const void* y_RC, Size R, Size C,
                      bool accumulate);

// Optional terms of a loss. With lse = log(sum_V exp(logits)), the loss of a row is
// (1 - label_smoothing) * -log p_target + label_smoothing * mean_V(-log p_v)   (Szegedy et al. 2016, section 7)
// + z_loss * lse^2                                                             (Chowdhery et al. 2022, section 5).
struct LossTerms {
  double z_loss = 0, label_smoothing = 0;
  constexpr bool none() const { return z_loss == 0 && label_smoothing == 0; }
};

// A row whose target is kIgnoredTarget has loss 0, lse 0 and gradient 0, for any logits. All other targets must be in
// [0, V). On CUDA a row with an invalid target is treated like an ignored one, and the forward pass records it.

// losses_M = lse_M - logits_MV[target_M], with the terms above. Both outputs are f32 (f64 for f64).
struct CrossEntropyForward {
  DType dtype;
  Size M, V;
  void *losses_M, *lse_M;
  const void* logits_MV;
  const std::int32_t* targets_M;
  LossTerms terms = {};
  IdCheck check = {};
};
template <class S>
void cross_entropy_forward(S stream, const CrossEntropyForward& loss);

// dlogits_MV (+)= scale * d_loss[0] * weight[0] * (exp(logits - lse) - [v = target]), with the terms' gradients. d_loss
// is one element of the losses' type and weight one f32; null stands for 1. dlogits may be logits (without accumulate).
struct CrossEntropyBackward {
  DType dtype;
  Size M, V;
  void* dlogits_MV;
  const void *logits_MV, *lse_M;
  const std::int32_t* targets_M;
  const void* d_loss;
  const float* weight = nullptr;
  double scale;
  bool accumulate = false;
  LossTerms terms = {};
};
template <class S>
void cross_entropy_backward(S stream, const CrossEntropyBackward& loss);

// Computes the forward and the backward pass over the same rows, with the bits of separate calls. The gradient
// overwrites the logits. On CUDA the logits are read once if two rows fit the shared memory of a multiprocessor.
template <class S>
void cross_entropy_in_place(S stream, const CrossEntropyForward& loss, const CrossEntropyBackward& gradient);

// counts_n[i] = the number of targets_nN[i] that are not kIgnoredTarget, rounded to f32: exact up to 2^24.
template <class S>
void count_targets(S stream, float* counts_n, Size n, const std::int32_t* targets_nN, Size N);
// weight[0] = targets / (the sum of counts_n), or 0 if that sum is 0. It turns the mean over all targets, where ignored
// ones have loss 0, into the mean over the targets that are not ignored.
template <class S>
void target_weight(S stream, float* weight, const float* counts_n, Size n, double targets);
// Returns the argument `targets` of target_weight() for n counts of N targets each. It is rounded like the counts, so
// the weight is exactly 1 if no target is ignored.
inline double all_targets(Size N, Size n) {
  return static_cast<double>(static_cast<float>(N)) * static_cast<double>(n);
}

}  // namespace lt::kernels
