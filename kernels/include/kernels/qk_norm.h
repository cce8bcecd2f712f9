// QK-norm: RMSNorm of each query head and each key head of packed rows (Henry et al. 2020, as in Qwen3).
// A packed row is [query heads | key heads | value heads] = [H*D | G*D | G*D]. Statistics are f32 (f64 for f64).
#pragma once

#include "kernels/common.h"

namespace lt::kernels {

struct QkNormShape {
  Size rows, H, G, D;

  constexpr Size row() const { return (H + 2 * G) * D; }
  constexpr Size heads() const { return H + G; }  // number of normalised heads
};

// For the channels x of one head: y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps). Value heads are copied.
struct QkNormForward {
  DType dtype;
  QkNormShape shape;
  void* y;     // [rows, row]
  void* rstd;  // [rows, H + G], kept for the backward
  const void* x;
  const void *wq_D, *wk_D;
  float eps;
};
template <class S>
void qk_norm_forward(S stream, const QkNormForward& norm);

// dx is overwritten and may be dy. Either weight gradient may be null; both have gradient_dtype(dtype).
struct QkNormBackward {
  DType dtype;
  QkNormShape shape;
  void* dx;
  void *dwq_D, *dwk_D;
  bool accumulate_dwq, accumulate_dwk;
  const void *dy, *x, *wq_D, *wk_D, *rstd;
};
template <class S>
void qk_norm_backward(S stream, const QkNormBackward& norm);

}  // namespace lt::kernels
