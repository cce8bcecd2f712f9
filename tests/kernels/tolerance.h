// The tolerance of a CPU kernel against the same formula in f64 over the same (rounded) inputs. The measure is max |x -
// reference| / (1 + |reference|), for inputs of about 1 and sums of a few thousand terms.
#pragma once

#include "libtrain/dtype.h"

namespace lt::test {

constexpr double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-12;  // 2^-53, times the length of the sums and one library call of 1 ulp
    case DType::f32: return 2e-5;   // 2^-24, times sums of up to 4096 terms in blocks; that of exp is in math_test.cpp
    case DType::bf16: return 4e-3;  // the result is rounded once, to 8 bits: 2^-9; the arithmetic is that of f32
    case DType::f16: return 1e-3;   // to 11 bits: 2^-12 of numbers of about 1
    default: return 0;
  }
}

}  // namespace lt::test
