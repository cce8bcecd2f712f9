// GELU, SiLU and SwiGLU on the GPU.
#include "kernels/cuda/activation_functions.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/elementwise.h"

namespace lt::kernels {
namespace {

template <class A>
struct Gelu {
  __device__ A operator()(A x) const { return gelu(x); }
};
template <class A>
struct GeluGradient {
  __device__ A operator()(A dy, A x) const { return dy * gelu_derivative(x); }
};
template <class A>
struct Silu {
  __device__ A operator()(A x) const { return x * sigmoid(x); }
};
template <class A>
struct SiluGradient {
  __device__ A operator()(A dy, A x) const { return dy * silu_derivative(x, sigmoid(x)); }
};

// Rows of F results from rows of 2F inputs. Each thread takes one pack of a row at a time.
template <int kCount, class T>
__global__ void swiglu_forward_kernel(T* y_RF, const T* x_R2F, Size R, Size F) {
  let_next_kernel_start();
  using P = Pack<T, kCount>;
  const Size packs = F / kCount;
  for (Size i = thread_index(); i < R * packs; i += thread_count()) {
    const Size r = i / packs, f = i % packs * kCount;
    const P gate = *reinterpret_cast<const P*>(x_R2F + r * 2 * F + f),
            up = *reinterpret_cast<const P*>(x_R2F + r * 2 * F + F + f);
    P y;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const Arithmetic<T> g = load(gate.values[k]);
      y.values[k] = store<T>(g * sigmoid(g) * load(up.values[k]));
    }
    *reinterpret_cast<P*>(y_RF + r * F + f) = y;
  }
}

template <int kCount, bool kAdd, class T>
__global__ void swiglu_backward_kernel(T* dx_R2F, const T* dy_RF, const T* x_R2F, Size R, Size F) {
  using P = Pack<T, kCount>;
  using A = Arithmetic<T>;
  const Size packs = F / kCount;
  for (Size i = thread_index(); i < R * packs; i += thread_count()) {
    const Size r = i / packs, f = i % packs * kCount, at = r * 2 * F + f;
    const P gate = *reinterpret_cast<const P*>(x_R2F + at), up = *reinterpret_cast<const P*>(x_R2F + at + F),
            dy = *reinterpret_cast<const P*>(dy_RF + r * F + f);
    P dgate, dup;
    if constexpr (kAdd) {
      dgate = *reinterpret_cast<const P*>(dx_R2F + at), dup = *reinterpret_cast<const P*>(dx_R2F + at + F);
    }
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const A g = load(gate.values[k]), d = load(dy.values[k]), s = sigmoid(g);
      const A to_gate = d * load(up.values[k]) * silu_derivative(g, s), to_up = d * (g * s);
      dgate.values[k] = store<T>(kAdd ? load(dgate.values[k]) + to_gate : to_gate);
      dup.values[k] = store<T>(kAdd ? load(dup.values[k]) + to_up : to_up);
    }
    *reinterpret_cast<P*>(dx_R2F + at) = dgate;
    *reinterpret_cast<P*>(dx_R2F + at + F) = dup;
  }
}

}  // namespace

template <>
void gelu_forward(CudaStream stream, DType dtype, void* y_N, const void* x_N, Size N) {
  dispatch_float(dtype, [&]<class T>() {
    map(stream, static_cast<T*>(y_N), N, false, Gelu<Arithmetic<T>>{}, static_cast<const T*>(x_N));
  });
}

template <>
void gelu_backward(CudaStream stream, DType dtype, void* dx_N, const void* dy_N, const void* x_N, Size N,
                   bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    map(stream, static_cast<T*>(dx_N), N, accumulate, GeluGradient<A>{}, static_cast<const T*>(dy_N),
        static_cast<const T*>(x_N));
  });
}

template <>
void silu_forward(CudaStream stream, DType dtype, void* y_N, const void* x_N, Size N) {
  dispatch_float(dtype, [&]<class T>() {
    map(stream, static_cast<T*>(y_N), N, false, Silu<Arithmetic<T>>{}, static_cast<const T*>(x_N));
  });
}

template <>
void silu_backward(CudaStream stream, DType dtype, void* dx_N, const void* dy_N, const void* x_N, Size N,
                   bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    map(stream, static_cast<T*>(dx_N), N, accumulate, SiluGradient<A>{}, static_cast<const T*>(dy_N),
        static_cast<const T*>(x_N));
  });
}

template <>
void swiglu_forward(CudaStream stream, DType dtype, void* y_RF, const void* x_R2F, Size R, Size F) {
  if (R * F == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    T* const y = static_cast<T*>(y_RF);
    const T* const x = static_cast<const T*>(x_R2F);
    dispatch_flag(F % kPack<T> == 0 && aligned(y, x), [&](auto whole) {
      constexpr int kCount = whole.value ? kPack<T> : 1;
      swiglu_forward_kernel<kCount><<<blocks_for(stream, R * F / kCount), kThreads, 0, stream_of(stream)>>>(y, x, R, F);
    });
  });
  check_launch("swiglu_forward");
}

template <>
void swiglu_backward(CudaStream stream, DType dtype, void* dx_R2F, const void* dy_RF, const void* x_R2F, Size R, Size F,
                     bool accumulate) {
  if (R * F == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    T* const dx = static_cast<T*>(dx_R2F);
    const T *const dy = static_cast<const T*>(dy_RF), *const x = static_cast<const T*>(x_R2F);
    dispatch_flag(F % kPack<T> == 0 && aligned(dx, dy, x), [&](auto whole) {
      dispatch_flag(accumulate, [&](auto add) {
        constexpr int kCount = whole.value ? kPack<T> : 1;
        swiglu_backward_kernel<kCount, add.value>
            <<<blocks_for(stream, R * F / kCount), kThreads, 0, stream_of(stream)>>>(dx, dy, x, R, F);
      });
    });
  });
  check_launch("swiglu_backward");
}

}  // namespace lt::kernels
