// Elementwise functions and their derivatives in the arithmetic type A, defined once for all devices.
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

// Functions of an element and a number c. gradient() is dy times the derivative.
struct AddNumber {
  template <class A>
  LT_ELEMENT_FUNCTION A value(A x, A c) {
    return x + c;
  }
  template <class A>
  LT_ELEMENT_FUNCTION A gradient(A dy, A, A) {
    return dy;
  }
};

struct SubtractByNumber {
  template <class A>
  LT_ELEMENT_FUNCTION A value(A x, A c) {
    return c - x;
  }
  template <class A>
  LT_ELEMENT_FUNCTION A gradient(A dy, A, A) {
    return -dy;
  }
};

struct DivideNumber {
  template <class A>
  LT_ELEMENT_FUNCTION A value(A x, A c) {
    return x / c;
  }
  template <class A>
  LT_ELEMENT_FUNCTION A gradient(A dy, A, A c) {
    return dy / c;
  }
};

struct DivideByNumber {
  template <class A>
  LT_ELEMENT_FUNCTION A value(A x, A c) {
    return c / x;
  }
  template <class A>
  LT_ELEMENT_FUNCTION A gradient(A dy, A x, A c) {
    return -(c / x) * (dy / x);  // the order of divide_backward()
  }
};

struct PowerNumber {
  template <class A>
  LT_ELEMENT_FUNCTION A value(A x, A c) {
    return c == A(1) ? x : c == A(2) ? x * x : std::pow(x, c);
  }
  template <class A>
  LT_ELEMENT_FUNCTION A gradient(A dy, A x, A c) {
    return c == A(0) ? A(0) : dy * (c * value(x, c - A(1)));
  }
};

// Calls use.operator()<AddNumber>() and so on.
template <class Use>
void dispatch(NumberFunction f, Use&& use) {
  switch (f) {
    case NumberFunction::add: return use.template operator()<AddNumber>();
    case NumberFunction::subtract_by: return use.template operator()<SubtractByNumber>();
    case NumberFunction::divide: return use.template operator()<DivideNumber>();
    case NumberFunction::divide_by: return use.template operator()<DivideByNumber>();
    case NumberFunction::power: return use.template operator()<PowerNumber>();
  }
}

}  // namespace lt::kernels::element
