// A product with GELU as a pass of its own.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/gemm.h"

namespace lt::kernels {

template <class S>
void gemm_then_gelu(S stream, const Gemm& g) {
  Gemm product = g;
  product.gelu_input_MN = nullptr, product.gelu_gradient_of_MN = nullptr;
  if (g.gelu_input_MN != nullptr) product.d = g.gelu_input_MN;
  gemm(stream, product);
  if (g.gelu_input_MN != nullptr) return gelu_forward(stream, g.out, g.d, g.gelu_input_MN, g.M * g.N);
  gelu_backward(stream, g.out, g.d, g.d, g.gelu_gradient_of_MN, g.M * g.N, false);
}

}  // namespace lt::kernels
