// Normalisation over the last dimension of R rows of C channels. Statistics are f32 (f64 for f64).
#pragma once

#include "kernels/common.h"

namespace lt::kernels {

// y_RC = (x_RC - mean_R) * rstd_R * w_C + b_C, rstd_R = 1 / sqrt(var(x_R) + eps)   (Ba, Kiros, Hinton 2016).
struct LayerNormForward {
  DType dtype;
  Size R, C;
  void* y_RC;
  void *mean_R, *rstd_R;  // kept for the backward
  const void *x_RC, *w_C;
  const void* b_C;  // may be null
  float eps;
};
template <class S>
void layer_norm_forward(S stream, const LayerNormForward& norm);

// dx_RC (+)=, dw_C (+)=, db_C (+)= the gradients; any of the three may be null. dw and db have gradient_dtype(dtype).
struct LayerNormBackward {
  DType dtype;
  Size R, C;
  void *dx_RC, *dw_C, *db_C;
  bool accumulate_dx, accumulate_dw, accumulate_db;
  const void *dy_RC, *x_RC, *w_C, *mean_R, *rstd_R;
};
template <class S>
void layer_norm_backward(S stream, const LayerNormBackward& norm);

// y_RC = x_RC * rstd_R * w_C, rstd_R = 1 / sqrt(mean(x_R^2) + eps)   (Zhang & Sennrich 2019, eq. 4).
struct RmsNormForward {
  DType dtype;
  Size R, C;
  void *y_RC, *rstd_R;
  const void *x_RC, *w_C;
  float eps;
};
template <class S>
void rms_norm_forward(S stream, const RmsNormForward& norm);

struct RmsNormBackward {
  DType dtype;
  Size R, C;
  void *dx_RC, *dw_C;
  bool accumulate_dx, accumulate_dw;
  const void *dy_RC, *x_RC, *w_C, *rstd_R;
};
template <class S>
void rms_norm_backward(S stream, const RmsNormBackward& norm);

}  // namespace lt::kernels
