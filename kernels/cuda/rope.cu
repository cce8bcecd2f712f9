// Rotary position embedding on the GPU: a thread to a pair, angles in double.
#include "kernels/rope.h"

#include "kernels/cuda/common.cuh"

namespace lt::kernels {
namespace {

struct Shape {
  Size B, T, row, heads, D;
};

// One block to a position: its angles once, in shared memory, for all sequences and heads.
template <class T, bool kAdd>
__global__ void rope_kernel(T* y_BTrow, const T* x_BTrow, Shape s, double base, Size first, double direction) {
  using A = Arithmetic<T>;
  extern __shared__ double angles[];  // [D/2] cosines, then sines
  A *const cosine = reinterpret_cast<A*>(angles), *const sine = cosine + s.D / 2;
  const Size t = blockIdx.x, half = s.D / 2, pairs = s.heads * half, rest = s.row - s.heads * s.D;
  for (Size d = threadIdx.x; d < half; d += blockDim.x) {
    const double rate = pow(base, -2.0 * static_cast<double>(d) / static_cast<double>(s.D));
    double c, n;
    sincos(static_cast<double>(first + t) * rate, &n, &c);
    cosine[d] = static_cast<A>(c), sine[d] = static_cast<A>(direction * n);
  }
  __syncthreads();
  for (Size b = blockIdx.y; b < s.B; b += gridDim.y) {
    const T* const x = x_BTrow + (b * s.T + t) * s.row;
    T* const y = y_BTrow + (b * s.T + t) * s.row;
    for (Size i = threadIdx.x; i < pairs; i += blockDim.x) {
      const Size d = i % half, low = i / half * s.D + d, high = low + half;
      const A u = load(x[low]), v = load(x[high]);
      const A p = u * cosine[d] - v * sine[d], q = v * cosine[d] + u * sine[d];
      y[low] = store<T>(kAdd ? load(y[low]) + p : p);
      y[high] = store<T>(kAdd ? load(y[high]) + q : q);
    }
    if (!kAdd && x == y) continue;
    for (Size i = s.heads * s.D + threadIdx.x; i < s.heads * s.D + rest; i += blockDim.x) {
      y[i] = kAdd ? store<T>(load(y[i]) + load(x[i])) : x[i];
    }
  }
}

}  // namespace

template <>
void rope(CudaStream stream, DType dtype, void* y_BTrow, const void* x_BTrow, Size B, Size T, Size row, Size heads,
          Size D, double base, Size first, bool inverse, bool accumulate) {
  if (B * T * row == 0) return;
  dispatch_float(dtype, [&]<class E>() {
    dispatch_flag(accumulate, [&](auto add) {
      const dim3 grid(static_cast<unsigned>(T), static_cast<unsigned>(B < 8 ? B : 8));
      const std::size_t shared = static_cast<std::size_t>(D) * sizeof(Arithmetic<E>);
      rope_kernel<E, add.value><<<grid, kThreads, shared, stream_of(stream)>>>(
          static_cast<E*>(y_BTrow), static_cast<const E*>(x_BTrow), Shape{B, T, row, heads, D}, base, first,
          inverse ? -1.0 : 1.0);
    });
  });
  check_launch("rope");
}

}  // namespace lt::kernels
