// Gather, cumulative sum and selection. Shapes are [O, R, I] around the dimension R.
#pragma once

#include <cstdint>

#include "kernels/common.h"

namespace lt::kernels {

struct Middle {
  Size O, R, I;
};

// y_OKI[o, k, i] = x_ORI[o, index_OKI[o, k, i], i]. Indices are in [0, R).
template <class S>
void gather(S stream, DType dtype, void* y_OKI, const void* x_ORI, const std::int32_t* index_OKI, const Middle& x,
            Size K);
// dx_ORI (+)= the sum of dy over the k that picked the element, in the order of k. dx has gradient_dtype(dtype).
template <class S>
void gather_backward(S stream, DType dtype, void* dx_ORI, bool accumulate, const void* dy_OKI,
                     const std::int32_t* index_OKI, const Middle& x, Size K);

// y_ORI[o, r, i] (+)= sum of x_ORI[o, 0..r, i], or of [o, r..R-1, i] with `reverse`, in that order, in f32 (f64 for
// f64).
template <class S>
void cumulative_sum(S stream, DType dtype, void* y_ORI, const void* x_ORI, const Middle& x, bool reverse,
                    bool accumulate);

// y_N = condition_N ? a_N : b_N. a or b may be null: zeros.
template <class S>
void select(S stream, DType dtype, void* y_N, const std::int32_t* condition_N, const void* a_N, const void* b_N,
            Size N);

}  // namespace lt::kernels
