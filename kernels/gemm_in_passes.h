// A product, and what belongs to it, in passes of their own.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"

namespace lt::kernels {

// Whether `g` asks for more than a product with what is added to it.
inline bool has_passes(const Gemm& g) {
  return g.gelu_input_MN != nullptr || g.gelu_gradient_of_MN != nullptr || g.sum_a_M != nullptr;
}

template <class S>
void gemm_in_passes(S stream, const Gemm& g) {
  Gemm product = g;
  product.gelu_input_MN = nullptr, product.gelu_gradient_of_MN = nullptr, product.sum_a_M = nullptr;
  if (g.gelu_input_MN != nullptr) product.d = g.gelu_input_MN;
  gemm(stream, product);
  const Size N = g.M * g.N;
  if (g.gelu_input_MN != nullptr) gelu_forward(stream, g.out, g.d, g.gelu_input_MN, N);
  if (g.gelu_gradient_of_MN != nullptr) gelu_backward(stream, g.out, g.d, g.d, g.gelu_gradient_of_MN, N, false);
  if (g.sum_a_M != nullptr) sum_rows(stream, gradient_dtype(g.dtype), g.sum_a_M, g.dtype, g.a, g.K, g.M, false);
}

}  // namespace lt::kernels
