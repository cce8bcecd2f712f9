// Gathers, cumulative sums and selections on the GPU. A thread takes a whole column of the middle dimension where sums
// run in its order.
#include "kernels/indexing.h"

#include "kernels/cuda/common.cuh"

namespace lt::kernels {
namespace {

template <class T>
__global__ void gather_kernel(T* y_OKI, const T* x_ORI, const std::int32_t* index_OKI, Middle m, Size K) {
  for (Size at = thread_index(); at < m.O * K * m.I; at += thread_count()) {
    y_OKI[at] = x_ORI[(at / (K * m.I) * m.R + index_OKI[at]) * m.I + at % m.I];
  }
}

template <class T>
__global__ void gather_backward_kernel(Arithmetic<T>* dx_ORI, bool accumulate, const T* dy_OKI,
                                       const std::int32_t* index_OKI, Middle m, Size K) {
  for (Size column = thread_index(); column < m.O * m.I; column += thread_count()) {
    const Size o = column / m.I, i = column % m.I;
    for (Size r = 0; r < m.R && !accumulate; ++r) dx_ORI[(o * m.R + r) * m.I + i] = 0;
    for (Size k = 0; k < K; ++k) {
      const Size at = (o * K + k) * m.I + i;
      dx_ORI[(o * m.R + index_OKI[at]) * m.I + i] += load(dy_OKI[at]);
    }
  }
}

template <class T>
__global__ void cumulative_sum_kernel(T* y_ORI, const T* x_ORI, Middle m, bool reverse, bool accumulate) {
  for (Size column = thread_index(); column < m.O * m.I; column += thread_count()) {
    Arithmetic<T> sum = 0;
    for (Size r = 0; r < m.R; ++r) {
      const Size at = (column / m.I * m.R + (reverse ? m.R - 1 - r : r)) * m.I + column % m.I;
      sum += load(x_ORI[at]);
      y_ORI[at] = store<T>(accumulate ? load(y_ORI[at]) + sum : sum);
    }
  }
}

template <class T>
__global__ void select_kernel(T* y_N, const std::int32_t* condition_N, const T* a_N, const T* b_N, Size N) {
  for (Size i = thread_index(); i < N; i += thread_count()) {
    const T* const from = condition_N[i] != 0 ? a_N : b_N;
    y_N[i] = from != nullptr ? from[i] : store<T>(0);
  }
}

}  // namespace

template <>
void gather(CudaStream stream, DType dtype, void* y_OKI, const void* x_ORI, const std::int32_t* index_OKI,
            const Middle& m, Size K) {
  if (m.O * K * m.I == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    gather_kernel<<<blocks_for(stream, m.O * K * m.I), kThreads, 0, stream_of(stream)>>>(
        static_cast<T*>(y_OKI), static_cast<const T*>(x_ORI), index_OKI, m, K);
  });
  check_launch("gather");
}

template <>
void gather_backward(CudaStream stream, DType dtype, void* dx_ORI, bool accumulate, const void* dy_OKI,
                     const std::int32_t* index_OKI, const Middle& m, Size K) {
  if (m.O * m.I == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    gather_backward_kernel<<<blocks_for(stream, m.O * m.I), kThreads, 0, stream_of(stream)>>>(
        static_cast<Arithmetic<T>*>(dx_ORI), accumulate, static_cast<const T*>(dy_OKI), index_OKI, m, K);
  });
  check_launch("gather_backward");
}

template <>
void cumulative_sum(CudaStream stream, DType dtype, void* y_ORI, const void* x_ORI, const Middle& m, bool reverse,
                    bool accumulate) {
  if (m.O * m.I == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    cumulative_sum_kernel<<<blocks_for(stream, m.O * m.I), kThreads, 0, stream_of(stream)>>>(
        static_cast<T*>(y_ORI), static_cast<const T*>(x_ORI), m, reverse, accumulate);
  });
  check_launch("cumulative_sum");
}

template <>
void select(CudaStream stream, DType dtype, void* y_N, const std::int32_t* condition_N, const void* a_N,
            const void* b_N, Size N) {
  if (N == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    select_kernel<<<blocks_for(stream, N), kThreads, 0, stream_of(stream)>>>(
        static_cast<T*>(y_N), condition_N, static_cast<const T*>(a_N), static_cast<const T*>(b_N), N);
  });
  check_launch("select");
}

}  // namespace lt::kernels
