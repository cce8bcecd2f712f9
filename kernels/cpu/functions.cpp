// Elementwise functions on the CPU.
#include "kernels/functions.h"

#include "kernels/cpu/map.h"
#include "kernels/function_of.h"

namespace lt::kernels {

template <>
void function_forward(CpuStream, ElementFunction f, DType dtype, void* y_N, const void* x_N, Size N) {
  dispatch_float(dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(x_N);
    element::dispatch(f, [&]<class F>() {
      map(static_cast<T*>(y_N), N, false, [=](Size i) LT_VECTOR_BODY { return F::value(load(x[i])); });
    });
  });
}

template <>
void function_backward(CpuStream, ElementFunction f, DType dtype, void* dx_N, const void* dy_N, const void* x_N, Size N,
                       bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    const T *x = static_cast<const T*>(x_N), *dy = static_cast<const T*>(dy_N);
    element::dispatch(f, [&]<class F>() {
      map(static_cast<T*>(dx_N), N, accumulate,
          [=](Size i) LT_VECTOR_BODY { return load(dy[i]) * F::derivative(load(x[i])); });
    });
  });
}

}  // namespace lt::kernels
