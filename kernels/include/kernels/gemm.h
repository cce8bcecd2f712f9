// Matmuls (GEMM) on row-major arrays.
#pragma once

#include "kernels/common.h"
#include "libtrain/device/kernel_settings.h"

namespace lt::kernels {

// For each of `batch` items: D_MN = alpha op(A)_MK op(B)_KN (+ bias_N) (+ add_MN) (+ D_MN if `accumulate`).
// Sums are f32 (f64 for f64) and rounded once to `out`; on the CPU twice if alpha is not 1.
struct Gemm {
  Size M = 0, N = 0, K = 0;
  const void* a = nullptr;         // [M, K], or [K, M] with transpose_a; rows are lda elements apart
  const void* b = nullptr;         // [K, N], or [N, K] with transpose_b
  void* d = nullptr;               // [M, N]
  Size lda = 0, ldb = 0, ldd = 0;  // 0: contiguous rows
  bool transpose_a = false, transpose_b = false;
  DType dtype = DType::f32;  // of a, b and bias; with e4m3 the bias is bf16
  DType out = DType::f32;    // of d and add: dtype, or f32 for bf16 and f16 inputs; bf16 or f32 for e4m3
  bool accumulate = false;
  const void* bias_N = nullptr;  // added to every row
  const void* add_MN = nullptr;  // a contiguous residual, the same for all items; must not be d
  double alpha = 1;              // other values need a contiguous d and allow no added terms
  // Let x be the matmul plus its bias. The next two arrays are contiguous like d and exclude accumulate, add_MN and
  // batch.
  void* gelu_input_MN = nullptr;              // receives x; d = gelu(x)
  const void* gelu_gradient_of_MN = nullptr;  // d = x * gelu'(this)
  // Receives the sums over k of op(A)_mk in gradient_dtype(dtype). Needs transpose_a, a contiguous a, and no batch.
  void* sum_a_M = nullptr;
  // For e4m3. Operands must be contiguous and without batch, and only b transposed. On CUDA, M, N and K must be
  // multiples of 16. Row m of op(A) is a_scales[m] times the stored numbers, and column n of op(B) is b_scales[n] times
  // the stored numbers. With `one_scale`, a_scales[0] and b_scales[0] apply to all rows and columns. On CUDA, sums
  // without `one_scale` may be rounded to 14 bits as they accumulate.
  const float *a_scales = nullptr, *b_scales = nullptr;
  bool one_scale = false;
  Size batch = 1, stride_a = 0, stride_b = 0, stride_d = 0;  // elements between items
  // On CUDA, use the algorithm without a workspace that cuBLASLt proposes first, not the one of the device's table. The
  // matmul may then run at the same time as others.
  bool pinned = false;
  KernelSettings settings = {};
};

constexpr DType bias_dtype(DType dtype) { return dtype == DType::e4m3 ? DType::bf16 : dtype; }

template <class S>
void gemm(S stream, const Gemm& g);

}  // namespace lt::kernels
