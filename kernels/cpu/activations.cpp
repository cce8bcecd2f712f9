// GELU, SiLU and SwiGLU on the CPU. Both activations are x times a sigmoid: one exponential and one division each.
#include "kernels/cpu/map.h"
#include "kernels/elementwise.h"

namespace lt::kernels {
namespace {

// The smaller of x and a constant; NaN stays NaN. Written with bits: GCC splits a select into two paths, precomputes
// the constant one and runs both in the vector loop, with subnormal products on the path not taken.
template <class A>
LT_INLINE A at_most(A x, A bound) {
  using Bits = std::conditional_t<sizeof(A) == 4, std::uint32_t, std::uint64_t>;
  const Bits above = -static_cast<Bits>(x > bound);
  return std::bit_cast<A>((std::bit_cast<Bits>(x) & ~above) | (std::bit_cast<Bits>(bound) & above));
}

// 1 / (1 + e^-z). In f32, e^-z is capped at e^87: 1.6e-38 remains for any z below -87. Times an activation x it is
// negligible beside x, but not beside 1 if x is huge.
LT_INLINE float sigmoid(float z) { return 1.0f / (1.0f + fast_exp_negative(at_most(-z, 87.0f))); }
LT_INLINE double sigmoid(double z) { return 1.0 / (1.0 + std::exp(-z)); }

constexpr double kSqrt2OverPi = 0.7978845608028653558798921198687637369517;
constexpr double kCubic = 0.044715;

// 0.5 (1 + tanh u) = sigmoid(2u).
template <class A>
LT_INLINE A gelu(A x) {
  return x * sigmoid(x * (A(2 * kSqrt2OverPi) + A(2 * kSqrt2OverPi * kCubic) * (x * x)));
}

template <class A>
LT_INLINE A gelu_derivative(A number) {
  // Beyond 64 it is 0 or 1. The powers of a larger x overflow, or outgrow what remains of the sigmoid.
  const A x = -at_most(-at_most(number, A(64)), A(64));
  const A square = x * x;
  const A s = sigmoid(x * (A(2 * kSqrt2OverPi) + A(2 * kSqrt2OverPi * kCubic) * square));
  const A slope = A(2 * kSqrt2OverPi) + A(6 * kSqrt2OverPi * kCubic) * square;  // derivative of the sigmoid's argument
  return s + x * s * (A(1) - s) * slope;
}

template <class A>
LT_INLINE A silu_derivative(A x, A s) {
  return s * (A(1) + x * (A(1) - s));
}

}  // namespace

template <>
void gelu_forward(CpuStream, DType dtype, void* y_N, const void* x_N, Size N) {
  dispatch_float(dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(x_N);
    map(static_cast<T*>(y_N), N, false, [=](Size i) LT_VECTOR_BODY { return gelu(load(x[i])); });
  });
}

template <>
void gelu_backward(CpuStream, DType dtype, void* dx_N, const void* dy_N, const void* x_N, Size N, bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    const T *x = static_cast<const T*>(x_N), *dy = static_cast<const T*>(dy_N);
    map(static_cast<T*>(dx_N), N, accumulate,
        [=](Size i) LT_VECTOR_BODY { return load(dy[i]) * gelu_derivative(load(x[i])); });
  });
}

template <>
void silu_forward(CpuStream, DType dtype, void* y_N, const void* x_N, Size N) {
  dispatch_float(dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(x_N);
    map(static_cast<T*>(y_N), N, false, [=](Size i) LT_VECTOR_BODY {
      const Arithmetic<T> v = load(x[i]);
      return v * sigmoid(v);
    });
  });
}

template <>
void silu_backward(CpuStream, DType dtype, void* dx_N, const void* dy_N, const void* x_N, Size N, bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    const T *x = static_cast<const T*>(x_N), *dy = static_cast<const T*>(dy_N);
    map(static_cast<T*>(dx_N), N, accumulate, [=](Size i) LT_VECTOR_BODY {
      const Arithmetic<T> v = load(x[i]);
      return load(dy[i]) * silu_derivative(v, sigmoid(v));
    });
  });
}

template <>
void swiglu_forward(CpuStream, DType dtype, void* y_RF, const void* x_R2F, Size R, Size F) {
  dispatch_float(dtype, [&]<class T>() {
    parallel_for(R, row_grain(F), [=](Size begin, Size end) LT_VECTOR_BODY {
      for (Size r = begin; r < end; ++r) {
        const T *const gate = static_cast<const T*>(x_R2F) + r * 2 * F, *const up = gate + F;
        T* const y = static_cast<T*>(y_RF) + r * F;
#pragma omp simd
        for (Size f = 0; f < F; ++f) {
          const Arithmetic<T> g = load(gate[f]);
          y[f] = store<T>(g * sigmoid(g) * load(up[f]));
        }
      }
    });
  });
}

template <>
void swiglu_backward(CpuStream, DType dtype, void* dx_R2F, const void* dy_RF, const void* x_R2F, Size R, Size F,
                     bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    dispatch_flag(accumulate, [&](auto flag) {
      parallel_for(R, row_grain(F), [=](Size begin, Size end) LT_VECTOR_BODY {
        for (Size r = begin; r < end; ++r) {
          const T *const gate = static_cast<const T*>(x_R2F) + r * 2 * F, *const up = gate + F;
          const T* const dy = static_cast<const T*>(dy_RF) + r * F;
          T *const dgate = static_cast<T*>(dx_R2F) + r * 2 * F, *const dup = dgate + F;
#pragma omp simd
          for (Size f = 0; f < F; ++f) {
            const A g = load(gate[f]), d = load(dy[f]), s = sigmoid(g);
            const A to_gate = d * load(up[f]) * silu_derivative(g, s), to_up = d * (g * s);
            dgate[f] = store<T>(flag ? load(dgate[f]) + to_gate : to_gate);
            dup[f] = store<T>(flag ? load(dup[f]) + to_up : to_up);
          }
        }
      });
    });
  });
}

}  // namespace lt::kernels
