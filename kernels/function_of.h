// Elementwise functions and their derivatives in the arithmetic type, defined once for all devices.
#pragma once

#include <cmath>

#include "kernels/functions.h"

#ifdef __CUDACC__
#define LT_ELEMENT_FUNCTION __host__ __device__ static inline
#else
#define LT_ELEMENT_FUNCTION static inline __attribute__((always_inline))
#endif

namespace lt::kernels::element {

struct Exp {
  template <class A>
  LT_ELEMENT_FUNCTION A value(A x) {
    return std::exp(x);
  }
  template <class A>
  LT_ELEMENT_FUNCTION A derivative(A x) {
    return std::exp(x);
  }
};

struct Log {
  template <class A>
  LT_ELEMENT_FUNCTION A value(A x) {
    return std::log(x);
  }
  template <class A>
  LT_ELEMENT_FUNCTION A derivative(A x) {
    return A(1) / x;
  }
};

struct Sqrt {
  template <class A>
  LT_ELEMENT_FUNCTION A value(A x) {
    return std::sqrt(x);
  }
  template <class A>
  LT_ELEMENT_FUNCTION A derivative(A x) {
    return A(0.5) / std::sqrt(x);
  }
};

struct Tanh {
  template <class A>
  LT_ELEMENT_FUNCTION A value(A x) {
    return std::tanh(x);
  }
  template <class A>
  LT_ELEMENT_FUNCTION A derivative(A x) {
    const A y = std::tanh(x);
    return A(1) - y * y;
  }
};

struct Relu {
  template <class A>
  LT_ELEMENT_FUNCTION A value(A x) {
    return x < A(0) ? A(0) : x;
  }  // NaN stays NaN
  template <class A>
  LT_ELEMENT_FUNCTION A derivative(A x) {
    return x > A(0) ? A(1) : A(0);
  }
};

struct Sigmoid {
  template <class A>
  LT_ELEMENT_FUNCTION A value(A x) {
    return A(1) / (A(1) + std::exp(-x));
  }
  template <class A>
  LT_ELEMENT_FUNCTION A derivative(A x) {
    const A y = value(x);
    return y * (A(1) - y);
  }
};

// Calls use.operator()<Exp>() and so on.
template <class Use>
void dispatch(ElementFunction f, Use&& use) {
  switch (f) {
    case ElementFunction::exp: return use.template operator()<Exp>();
    case ElementFunction::log: return use.template operator()<Log>();
    case ElementFunction::sqrt: return use.template operator()<Sqrt>();
    case ElementFunction::tanh: return use.template operator()<Tanh>();
    case ElementFunction::relu: return use.template operator()<Relu>();
    case ElementFunction::sigmoid: return use.template operator()<Sigmoid>();
  }
}

}  // namespace lt::kernels::element
