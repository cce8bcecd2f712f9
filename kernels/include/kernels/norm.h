// Normalisation over the last dimension of R rows of C channels. Statistics are f32 (f64 for f64).
#pragma once

#include "kernels/common.h"

namespace lt::kernels {

// y_RC = (x_RC - mean_R) * rstd_R * w_C + b_C, rstd_R = 1 / sqrt(var(x_R) + eps)   (Ba, Kiros, Hinton 2016).
// b_C may be null. mean_R and rstd_R are kept for the backward.
template <class S>
void layer_norm_forward(S stream, DType dtype, void* y_RC, void* mean_R, void* rstd_R, const void* x_RC,
                        const void* w_C, const void* b_C, Size R, Size C, float eps);

// dx_RC (+)=, dw_C (+)=, db_C (+)= the gradients; any of the three may be null. dw and db have gradient_dtype(dtype).
template <class S>
void layer_norm_backward(S stream, DType dtype, void* dx_RC, bool accumulate_dx, void* dw_C, bool accumulate_dw,
                         void* db_C, bool accumulate_db, const void* dy_RC, const void* x_RC, const void* w_C,
                         const void* mean_R, const void* rstd_R, Size R, Size C);

// y_RC = x_RC * rstd_R * w_C, rstd_R = 1 / sqrt(mean(x_R^2) + eps)   (Zhang & Sennrich 2019, eq. 4).
template <class S>
void rms_norm_forward(S stream, DType dtype, void* y_RC, void* rstd_R, const void* x_RC, const void* w_C, Size R,
                      Size C, float eps);
template <class S>
void rms_norm_backward(S stream, DType dtype, void* dx_RC, bool accumulate_dx, void* dw_C, bool accumulate_dw,
                       const void* dy_RC, const void* x_RC, const void* w_C, const void* rstd_R, Size R, Size C);

}  // namespace lt::kernels
