// Skinny matmuls: at most kMostSkinnyRows rows times a matrix of constant weights, as generation needs them for each
// token. Reading the matrix limits their speed, so the kernel also computes the norm before the matmul and the
// activation after it. On CUDA only.
#pragma once

#include "kernels/common.h"

namespace lt::kernels {

inline constexpr Size kMostSkinnyRows = 8;

// d_MN = norm(a)_MK b_NK^T + bias_N + add_MN, or with `gated` silu(gate) * up, where [gate | up] is norm(a) b^T and b
// has 2N rows. norm is the RMSNorm of a's rows with the weights norm_w_K, or the identity if norm_w_K is null. Sums are
// f32 and rounded once; separate operations would also round after the norm and before the activation. The bits of a
// row do not depend on M.
struct SkinnyMatmul {
  DType dtype;
  Size M, N, K;
  void* d_MN;
  const void *a_MK, *b;
  const void *bias_N = nullptr, *add_MN = nullptr;  // may be null; not with `gated`
  const void* norm_w_K = nullptr;
  float norm_eps = 0;
  bool gated = false;  // with a norm only
};
// True if the kernel supports such a matmul: at most kMostSkinnyRows rows, not f64, and rows of K elements that are a
// multiple of 16 bytes.
constexpr bool supports_skinny_matmul(DType dtype, Size M, Size K) {
  return M <= kMostSkinnyRows && K > 0 && dtype != DType::f64 && K * dtype_bytes(dtype) % 16 == 0;
}
// All pointers to matrices and norm_w_K must be aligned to 16 bytes.
void skinny_matmul(CudaStream stream, const SkinnyMatmul& matmul);

}  // namespace lt::kernels
