// Gather on the CPU. Each thread takes whole columns of the middle dimension, so sums run in the order of that
// dimension.
#include "kernels/gather.h"

#include "kernels/cpu/map.h"

namespace lt::kernels {

template <>
void gather(CpuStream, DType dtype, void* y_OKI, const void* x_ORI, const std::int32_t* index_OKI, const MiddleShape& m,
            Size K) {
  const Size R = m.R, I = m.I;
  dispatch_float(dtype, [&]<class T>() {
    T* const y = static_cast<T*>(y_OKI);
    const T* const x = static_cast<const T*>(x_ORI);
    parallel_for(m.O * K, row_grain(I), [=](Size begin, Size end) LT_VECTOR_BODY {
      for (Size row = begin; row < end; ++row) {
        for (Size i = 0; i < I; ++i) y[row * I + i] = x[(row / K * R + index_OKI[row * I + i]) * I + i];
      }
    });
  });
}

template <>
void gather_backward(CpuStream, DType dtype, void* dx_ORI, bool accumulate, const void* dy_OKI,
                     const std::int32_t* index_OKI, const MiddleShape& m, Size K) {
  const Size R = m.R, I = m.I;
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    A* const dx = static_cast<A*>(dx_ORI);
    const T* const dy = static_cast<const T*>(dy_OKI);
    parallel_for(m.O * I, row_grain(R + K), [=](Size begin, Size end) LT_VECTOR_BODY {
      for (Size column = begin; column < end; ++column) {
        const Size o = column / I, i = column % I;
        for (Size r = 0; r < R && !accumulate; ++r) dx[(o * R + r) * I + i] = A(0);
        for (Size k = 0; k < K; ++k) {
          const Size at = (o * K + k) * I + i;
          dx[(o * R + index_OKI[at]) * I + i] += load(dy[at]);
        }
      }
    });
  });
}

}  // namespace lt::kernels
