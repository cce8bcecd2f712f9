// Gathers, cumulative sums and selections on the CPU. A thread takes whole columns of the middle dimension, so sums run
// in its order.
#include "kernels/indexing.h"

#include "kernels/cpu/map.h"

namespace lt::kernels {

template <>
void gather(CpuStream, DType dtype, void* y_OKI, const void* x_ORI, const std::int32_t* index_OKI, const Middle& m,
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
                     const std::int32_t* index_OKI, const Middle& m, Size K) {
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

template <>
void cumulative_sum(CpuStream, DType dtype, void* y_ORI, const void* x_ORI, const Middle& m, bool reverse,
                    bool accumulate) {
  const Size R = m.R, I = m.I;
  dispatch_float(dtype, [&]<class T>() {
    T* const y = static_cast<T*>(y_ORI);
    const T* const x = static_cast<const T*>(x_ORI);
    parallel_for(m.O * I, row_grain(R), [=](Size begin, Size end) LT_VECTOR_BODY {
      for (Size column = begin; column < end; ++column) {
        Arithmetic<T> sum = 0;
        for (Size r = 0; r < R; ++r) {
          const Size at = (column / I * R + (reverse ? R - 1 - r : r)) * I + column % I;
          sum += load(x[at]);
          y[at] = store<T>(accumulate ? load(y[at]) + sum : sum);
        }
      }
    });
  });
}

template <>
void select(CpuStream, DType dtype, void* y_N, const std::int32_t* condition_N, const void* a_N, const void* b_N,
            Size N) {
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    const T *const a = static_cast<const T*>(a_N), *const b = static_cast<const T*>(b_N);
    map(static_cast<T*>(y_N), N, false, [=](Size i) LT_VECTOR_BODY {
      const T* const from = condition_N[i] != 0 ? a : b;
      return from != nullptr ? load(from[i]) : A(0);
    });
  });
}

}  // namespace lt::kernels
