// Elementwise functions on the GPU.
#include "kernels/functions.h"

#include "kernels/cuda/map.cuh"
#include "kernels/function_of.h"

namespace lt::kernels {
namespace {

template <class F>
struct ValueOf {
  template <class A>
  __device__ A operator()(A x) const {
    return F::value(x);
  }
};
template <class F>
struct GradientOf {
  template <class A>
  __device__ A operator()(A dy, A x) const {
    return dy * F::derivative(x);
  }
};

template <class F, class A>
struct ValueWith {
  A number;
  __device__ A operator()(A x) const { return F::value(x, number); }
};
template <class F, class A>
struct GradientWith {
  A number;
  __device__ A operator()(A dy, A x) const { return F::gradient(dy, x, number); }
};

}  // namespace

template <>
void function_forward(CudaStream stream, ElementFunction f, DType dtype, void* y_N, const void* x_N, Size N) {
  dispatch_float(dtype, [&]<class T>() {
    element::dispatch(
        f, [&]<class F>() { map(stream, static_cast<T*>(y_N), N, false, ValueOf<F>{}, static_cast<const T*>(x_N)); });
  });
}

template <>
void function_backward(CudaStream stream, ElementFunction f, DType dtype, void* dx_N, const void* dy_N, const void* x_N,
                       Size N, bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    element::dispatch(f, [&]<class F>() {
      map(stream, static_cast<T*>(dx_N), N, accumulate, GradientOf<F>{}, static_cast<const T*>(dy_N),
          static_cast<const T*>(x_N));
    });
  });
}

template <>
void number_function_forward(CudaStream stream, NumberFunction f, DType dtype, void* y_N, const void* x_N, double c,
                             Size N) {
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    element::dispatch(f, [&]<class F>() {
      map(stream, static_cast<T*>(y_N), N, false, ValueWith<F, A>{static_cast<A>(c)}, static_cast<const T*>(x_N));
    });
  });
}

template <>
void number_function_backward(CudaStream stream, const NumberFunctionBackward& k) {
  dispatch_float(k.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    const T *dy = static_cast<const T*>(k.dy_N), *x = gradient_needs_input(k.f) ? static_cast<const T*>(k.x_N) : dy;
    element::dispatch(k.f, [&]<class F>() {
      map(stream, static_cast<T*>(k.dx_N), k.N, k.accumulate, GradientWith<F, A>{static_cast<A>(k.c)}, dy, x);
    });
  });
}

}  // namespace lt::kernels
