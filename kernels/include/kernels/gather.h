// Gather along a dimension, and its gradient.
#pragma once

#include <cstdint>

#include "kernels/common.h"

namespace lt::kernels {

// y_OKI[o, k, i] = x_ORI[o, index_OKI[o, k, i], i]. Indices are in [0, R).
template <class S>
void gather(S stream, DType dtype, void* y_OKI, const void* x_ORI, const std::int32_t* index_OKI, const MiddleShape& x,
            Size K);
// dx_ORI (+)= the sum of dy over the k that selected the element, in the order of k. dx has gradient_dtype(dtype).
template <class S>
void gather_backward(S stream, DType dtype, void* dx_ORI, bool accumulate, const void* dy_OKI,
                     const std::int32_t* index_OKI, const MiddleShape& x, Size K);

}  // namespace lt::kernels
