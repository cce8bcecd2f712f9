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

template <>
void number_function_forward(CpuStream, NumberFunction f, DType dtype, void* y_N, const void* x_N, double c, Size N) {
  dispatch_float(dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(x_N);
    const Arithmetic<T> number = static_cast<Arithmetic<T>>(c);
    element::dispatch(f, [&]<class F>() {
      map(static_cast<T*>(y_N), N, false, [=](Size i) LT_VECTOR_BODY { return F::value(load(x[i]), number); });
    });
  });
}

template <>
void number_function_backward(CpuStream, const NumberFunctionBackward& k) {
  dispatch_float(k.dtype, [&]<class T>() {
    const T *dy = static_cast<const T*>(k.dy_N), *x = gradient_needs_input(k.f) ? static_cast<const T*>(k.x_N) : dy;
    const Arithmetic<T> number = static_cast<Arithmetic<T>>(k.c);
    element::dispatch(k.f, [&]<class F>() {
      map(static_cast<T*>(k.dx_N), k.N, k.accumulate,
          [=](Size i) LT_VECTOR_BODY { return F::gradient(load(dy[i]), load(x[i]), number); });
    });
  });
}

}  // namespace lt::kernels
