// Elementwise operations: copies and conversions, arithmetic with broadcasting, activations, dropout.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/common.h"
#include "kernels/on_device.h"

namespace lt::kernels {

inline constexpr int kMaxDims = 6;

// An index space of `dims` sizes, with the strides (in elements) of up to three arrays. Stride 0 broadcasts.
struct Strided {
  int dims = 0;
  std::array<Size, kMaxDims> sizes{};
  std::array<Size, kMaxDims> out{}, a{}, b{};

  Size elements() const {
    Size n = 1;
    for (int i = 0; i < dims; ++i) n *= sizes[static_cast<std::size_t>(i)];
    return n;
  }
};

template <class S>
void fill_zero(S stream, void* x, Size bytes);
// Sets every element to `value`, rounded to dtype (f32, f64, bf16, f16).
template <class S>
void fill(S stream, DType dtype, void* x_N, double value, Size N);

// y_N (+)= x_N, converting between any two of f32, f64, bf16, f16 (and i32 to i32). y may be x if the types are equal.
template <class S>
void convert(S stream, DType y_dtype, void* y_N, DType x_dtype, const void* x_N, Size N, bool accumulate);

// out (+)= a over the strided space, one dtype.
template <class S>
void copy_strided(S stream, DType dtype, const Strided& space, void* out, const void* a, bool accumulate);

// out = a + b and out (+)= a * b over the strided space, one dtype.
template <class S>
void add(S stream, DType dtype, const Strided& space, void* out, const void* a, const void* b);
template <class S>
void mul(S stream, DType dtype, const Strided& space, void* out, const void* a, const void* b, bool accumulate);

// out = a - b and out = a / b over the strided space, one dtype.
template <class S>
void subtract(S stream, DType dtype, const Strided& space, void* out, const void* a, const void* b);
template <class S>
void divide(S stream, DType dtype, const Strided& space, void* out, const void* a, const void* b);
// out = -(a / b) * (out / b), rounded once: turns the gradient of a / b into the gradient of b.
template <class S>
void divide_backward(S stream, DType dtype, const Strided& space, void* out, const void* a, const void* b);
// out = the larger of a and b; NaN if either is NaN.
template <class S>
void maximum(S stream, DType dtype, const Strided& space, void* out, const void* a, const void* b);
// out *= 1 if a > b, 1/2 if a = b, else 0: turns the gradient of maximum(a, b) into the gradient of a.
template <class S>
void maximum_backward(S stream, DType dtype, const Strided& space, void* out, const void* a, const void* b);

// The result of comparing a with b, for each of their four relations. A NaN is unordered with every number.
struct Comparison {
  std::int32_t if_less, if_equal, if_greater, if_unordered;

  template <class T>
  LT_ON_DEVICE std::int32_t operator()(T a, T b) const {
    return a < b ? if_less : a == b ? if_equal : a > b ? if_greater : if_unordered;
  }
};
// out = comparison(a, b) over the strided space, for a and b of one dtype (also i32). A null b stands for `number`,
// rounded to dtype.
template <class S>
void compare(S stream, const Comparison& comparison, DType dtype, const Strided& space, std::int32_t* out,
             const void* a, const void* b, double number);

// y_N = condition_N ? a_N : b_N. A null a or b stands for zeros.
template <class S>
void select(S stream, DType dtype, void* y_N, const std::int32_t* condition_N, const void* a_N, const void* b_N,
            Size N);

// y_N (+)= alpha * x_N.
template <class S>
void scale(S stream, DType dtype, void* y_N, const void* x_N, double alpha, Size N, bool accumulate);

// GELU in its tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))   (Hendrycks & Gimpel 2016).
template <class S>
void gelu_forward(S stream, DType dtype, void* y_N, const void* x_N, Size N);
// dx may be dy or x, here and in the next two backward functions.
template <class S>
void gelu_backward(S stream, DType dtype, void* dx_N, const void* dy_N, const void* x_N, Size N, bool accumulate);

// SiLU: x / (1 + exp(-x)).
template <class S>
void silu_forward(S stream, DType dtype, void* y_N, const void* x_N, Size N);
template <class S>
void silu_backward(S stream, DType dtype, void* dx_N, const void* dy_N, const void* x_N, Size N, bool accumulate);

// SwiGLU (Shazeer 2020): y_RF = silu(gate_RF) * up_RF with x_R2F = [gate | up] in each row.
template <class S>
void swiglu_forward(S stream, DType dtype, void* y_RF, const void* x_R2F, Size R, Size F);
template <class S>
void swiglu_backward(S stream, DType dtype, void* dx_R2F, const void* dy_RF, const void* x_R2F, Size R, Size F,
                     bool accumulate);

// The number of a tensor's first element: first + *samples * per_sample, or `first` if `samples` is null. `samples` is
// in device memory, so a captured graph numbers the elements of each launch anew.
struct FirstElement {
  std::uint64_t first = 0;
  const std::uint64_t* samples = nullptr;
  std::uint64_t per_sample = 0;

  // True if the number is a multiple of `n` for every value of *samples.
  bool is_multiple_of(std::uint64_t n) const { return first % n == 0 && (samples == nullptr || per_sample % n == 0); }
  LT_ON_DEVICE std::uint64_t number() const { return samples == nullptr ? first : first + *samples * per_sample; }
};

// Inverted dropout: y_i (+)= x_i / (1 - p) if the uniform number of element first + i under `key` is >= p, else 0. p is
// in [0, 1). The mask depends only on (key, first + i). The gradient is the same function of dy. y may be x.
struct Dropout {
  DType dtype;
  Size N;
  void* y_N;
  const void* x_N;
  float p;
  std::uint64_t key;
  FirstElement first;
  bool accumulate = false;
};
template <class S>
void dropout(S stream, const Dropout& dropout);

}  // namespace lt::kernels
