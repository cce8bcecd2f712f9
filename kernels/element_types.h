// Dispatches from a call's dtype and options to C++ types, for the kernels of every device.
#pragma once

#include <string>
#include <type_traits>

#include "kernels/common.h"
#include "libtrain/dtype.h"
#include "libtrain/error.h"

namespace lt::kernels {

// The type of arithmetic on numbers stored as T: f64 for f64, otherwise f32.
template <class T>
using Arithmetic = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Calls f.template operator()<T>() with the element type of a floating dtype that kernels compute with. Throws
// InternalError for any other dtype.
template <class F>
decltype(auto) dispatch_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f.template operator()<float>();
    case DType::f64: return f.template operator()<double>();
    case DType::bf16: return f.template operator()<bf16>();
    case DType::f16: return f.template operator()<f16>();
    default: break;
  }
  throw InternalError("kernels", "expected f32, f64, bf16 or f16, found " + std::string(dtype_name(dtype)));
}

// Like dispatch_float(), but for the dtypes in which ranks add values: f32, f64 and bf16.
template <class F>
decltype(auto) dispatch_reduced(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f.template operator()<float>();
    case DType::f64: return f.template operator()<double>();
    case DType::bf16: return f.template operator()<bf16>();
    default: break;
  }
  throw InternalError("kernels", "expected f32, f64 or bf16, found " + std::string(dtype_name(dtype)));
}

// Like dispatch_float(), but for f32 and bf16 only.
template <class F>
decltype(auto) dispatch_f32_bf16(DType dtype, F&& f) {
  if (dtype == DType::f32) return f.template operator()<float>();
  if (dtype == DType::bf16) return f.template operator()<bf16>();
  throw InternalError("kernels", "expected f32 or bf16, found " + std::string(dtype_name(dtype)));
}

// Calls f(out) with `out` cast to the type of `out_dtype`, for sums over elements of type T: T itself, or the type of
// T's gradients. Throws InternalError, naming `kernel`, for any other dtype.
template <class T, class F>
void dispatch_output(const char* kernel, DType out_dtype, void* out, DType dtype, F f) {
  if (out_dtype == dtype) return f(static_cast<T*>(out));
  if (out_dtype != gradient_dtype(dtype)) {
    throw InternalError("kernels", std::string(kernel) + ": expected sums in " +
                                       std::string(dtype_name(gradient_dtype(dtype))) + ", found " +
                                       std::string(dtype_name(out_dtype)));
  }
  f(static_cast<Arithmetic<T>*>(out));
}

// Calls f(std::true_type) or f(std::false_type).
template <class F>
decltype(auto) dispatch_flag(bool flag, F&& f) {
  return flag ? f(std::true_type{}) : f(std::false_type{});
}

}  // namespace lt::kernels
