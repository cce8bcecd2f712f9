// Gather on the GPU. In the gradient a thread takes a whole column of the middle dimension, because sums run in the
// order of that dimension.
#include "kernels/gather.h"

#include "kernels/cuda/common.cuh"

namespace lt::kernels {
namespace {

template <class T>
__global__ void gather_kernel(T* y_OKI, const T* x_ORI, const std::int32_t* index_OKI, MiddleShape m, Size K) {
  for (Size at = thread_index(); at < m.O * K * m.I; at += thread_count()) {
    y_OKI[at] = x_ORI[(at / (K * m.I) * m.R + index_OKI[at]) * m.I + at % m.I];
  }
}

template <class T>
__global__ void gather_backward_kernel(Arithmetic<T>* dx_ORI, bool accumulate, const T* dy_OKI,
                                       const std::int32_t* index_OKI, MiddleShape m, Size K) {
  for (Size column = thread_index(); column < m.O * m.I; column += thread_count()) {
    const Size o = column / m.I, i = column % m.I;
    for (Size r = 0; r < m.R && !accumulate; ++r) dx_ORI[(o * m.R + r) * m.I + i] = 0;
    for (Size k = 0; k < K; ++k) {
      const Size at = (o * K + k) * m.I + i;
      dx_ORI[(o * m.R + index_OKI[at]) * m.I + i] += load(dy_OKI[at]);
    }
  }
}

}  // namespace

template <>
void gather(CudaStream stream, DType dtype, void* y_OKI, const void* x_ORI, const std::int32_t* index_OKI,
            const MiddleShape& m, Size K) {
  if (m.O * K * m.I == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    gather_kernel<<<blocks_for(stream, m.O * K * m.I), kThreads, 0, stream_of(stream)>>>(
        static_cast<T*>(y_OKI), static_cast<const T*>(x_ORI), index_OKI, m, K);
  });
  check_launch("gather");
}

template <>
void gather_backward(CudaStream stream, DType dtype, void* dx_ORI, bool accumulate, const void* dy_OKI,
                     const std::int32_t* index_OKI, const MiddleShape& m, Size K) {
  if (m.O * m.I == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    gather_backward_kernel<<<blocks_for(stream, m.O * m.I), kThreads, 0, stream_of(stream)>>>(
        static_cast<Arithmetic<T>*>(dx_ORI), accumulate, static_cast<const T*>(dy_OKI), index_OKI, m, K);
  });
  check_launch("gather_backward");
}

}  // namespace lt::kernels
