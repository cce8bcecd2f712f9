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

}  // namespace lt::kernels
