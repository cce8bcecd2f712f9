// A matmul whose GELU and sums of A run as separate passes.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"
#include "libtrain/error.h"

namespace lt::kernels {

// True if `g` asks for GELU, its gradient or the sums of A.
inline bool has_passes(const Gemm& g) {
  return g.gelu_input_MN != nullptr || g.gelu_gradient_of_MN != nullptr || g.sum_a_M != nullptr;
}

// Throws InternalError if alpha is not 1 and `g` adds anything or has no contiguous output.
inline void require_plain_factor(const Gemm& g) {
  const bool plain =
      !has_passes(g) && g.bias_N == nullptr && g.add_MN == nullptr && !g.accumulate && (g.ldd == 0 || g.ldd == g.N);
  if (g.alpha == 1 || plain) return;
  throw InternalError("kernels", "gemm: expected alpha 1 with a bias, an addend, accumulation or strided output rows");
}

// Throws InternalError if operands in e4m3 have no scales or a layout that tensor cores do not take.
inline void require_scaled_operands(const Gemm& g) {
  if (g.dtype != DType::e4m3) return;
  const bool plain = g.transpose_b && !g.transpose_a && g.lda == 0 && g.ldb == 0 && g.batch == 1;
  if (plain && g.a_scales != nullptr && g.b_scales != nullptr) return;
  throw InternalError("kernels", "gemm: expected e4m3 operands with scales, contiguous, only b transposed, no batch");
}

template <class S>
void gemm_in_passes(S stream, const Gemm& g) {
  Gemm matmul = g;
  matmul.gelu_input_MN = nullptr, matmul.gelu_gradient_of_MN = nullptr, matmul.sum_a_M = nullptr;
  if (g.gelu_input_MN != nullptr) matmul.d = g.gelu_input_MN;
  gemm(stream, matmul);
  const Size N = g.M * g.N;
  if (g.gelu_input_MN != nullptr) gelu_forward(stream, g.out, g.d, g.gelu_input_MN, N);
  if (g.gelu_gradient_of_MN != nullptr) gelu_backward(stream, g.out, g.d, g.d, g.gelu_gradient_of_MN, N, false);
  if (g.sum_a_M != nullptr) sum_rows(stream, gradient_dtype(g.dtype), g.sum_a_M, g.dtype, g.a, g.K, g.M, false);
}

}  // namespace lt::kernels
