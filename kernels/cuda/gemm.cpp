// Matmuls through cuBLASLt. Work that cuBLASLt cannot fuse runs in separate passes.
#include "kernels/gemm.h"

#include <string>

#include "device/cuda.h"
#include "kernels/cuda/cublas_matmuls.h"
#include "kernels/elementwise.h"
#include "kernels/gemm_in_passes.h"
#include "kernels/skinny_matmul.h"
#include "memory/workspace.h"

namespace lt::kernels {
namespace {

// d_MN += x. x is a matrix, or with x_row = 0 one row for all rows of d.
void add_to(CudaStream stream, const Gemm& g, const void* x, DType x_dtype, Size x_row) {
  if (x_dtype != g.out) {  // a bias
    void* const converted = memory::scratch(stream, g.N * dtype_bytes(g.out));
    convert(stream, g.out, converted, x_dtype, x, g.N, false);
    x = converted;
  }
  const Size ldd = g.ldd ? g.ldd : g.N;
  for (Size item = 0; item < g.batch; ++item) {
    copy_strided(stream, g.out, {2, {g.M, g.N}, {ldd, 1}, {x_row, 1}, {}},
                 static_cast<std::byte*>(g.d) + item * g.stride_d * dtype_bytes(g.out), x, true);
  }
}

// Result of a matmul with K = 0: zeroes d unless it accumulates.
void clear(CudaStream stream, const Gemm& g) {
  if (g.accumulate) return;
  const Size ldd = g.ldd ? g.ldd : g.N;
  for (Size item = 0; item < g.batch; ++item) {
    auto* const d = static_cast<std::byte*>(g.d) + item * g.stride_d * dtype_bytes(g.out);
    for (Size m = 0; m < g.M; ++m) {
      fill_zero(stream, d + m * ldd * dtype_bytes(g.out), g.N * dtype_bytes(g.out));
    }
  }
}

// Runs the extra work in separate passes for a deterministic GELU, because a recomputed one starts from the rounded
// input, while a fused one starts from the sums. Also for pinned matmuls, for dtypes other than bf16 and f16, for K =
// 0, and if cuBLASLt has no such matmul. Otherwise takes the chosen way.
void gemm_with_passes(CudaStream stream, const Gemm& g) {
  Cublas& cublas = Cublas::of(stream.device);
  const bool may_differ = g.settings.deterministic && g.gelu_input_MN != nullptr;
  const bool possible = !may_differ && !g.pinned && dtype_bytes(g.dtype) == 2 && g.K > 0;
  Prepared* const prepared = possible ? cublas.prepare(problem_of(stream, g, g.bias_N != nullptr, g.d)) : nullptr;
  if (prepared == nullptr) return gemm_in_passes(stream, g);
  const float one = 1, beta = g.accumulate ? 1 : 0;
  cublas.run_chosen(
      *prepared, g, stream, [&] { cublas.run(*prepared, &one, &beta, g, g.d, stream); },
      [&] { gemm_in_passes(stream, g); });
}

// Generation's matmuls. Returns false, and does nothing, for others.
bool try_skinny_matmul(CudaStream stream, const Gemm& g) {
  const bool is_plain = g.settings.constant_weights && g.transpose_b && !g.transpose_a && !g.accumulate && !g.pinned &&
                        g.batch == 1 && g.alpha == 1 && g.out == g.dtype && !has_passes(g);
  const bool is_contiguous =
      (g.lda == 0 || g.lda == g.K) && (g.ldb == 0 || g.ldb == g.K) && (g.ldd == 0 || g.ldd == g.N);
  const bool is_aligned = alignment_of(g.a) >= 16 && alignment_of(g.b) >= 16;
  if (!is_plain || !is_contiguous || !is_aligned || !supports_skinny_matmul(g.dtype, g.M, g.K)) return false;
  skinny_matmul(stream, SkinnyMatmul{g.dtype, g.M, g.N, g.K, g.d, g.a, g.b, g.bias_N, g.add_MN});
  return true;
}

}  // namespace

template <>
void gemm(CudaStream stream, const Gemm& g) {
  require_plain_factor(g);
  require_scaled_operands(g);
  if (g.M == 0 || g.N == 0 || g.batch == 0 || try_skinny_matmul(stream, g)) return;
  if (g.settings.constant_weights && g.M <= kMostSkinnyRows && g.gelu_input_MN != nullptr)
    return gemm_in_passes(stream, g);
  if (has_passes(g)) return gemm_with_passes(stream, g);
  Gemm matmul = g;
  // A residual goes in as C unless the call also accumulates into d. Terms that do not go in are added afterwards.
  const bool add_as_c = g.add_MN && !g.accumulate;
  const void* const c = add_as_c ? g.add_MN : g.d;
  bool bias_left = false;
  if (g.K == 0) {
    clear(stream, g);
    if (add_as_c) add_to(stream, g, g.add_MN, g.out, g.N);
    bias_left = g.bias_N != nullptr;
  } else {
    Cublas& cublas = Cublas::of(stream.device);
    const bool bias_inside = g.bias_N && bias_dtype(g.dtype) == g.out && g.dtype != DType::f64;
    Prepared* prepared = cublas.prepare(problem_of(stream, g, bias_inside, c));
    bias_left = g.bias_N && !(bias_inside && prepared);
    if (prepared == nullptr && bias_inside) prepared = cublas.prepare(problem_of(stream, g, false, c));
    if (prepared == nullptr) {
      throw InternalError("cuda", "cuBLASLt has no algorithm for a matmul of " + std::to_string(g.M) + " x " +
                                      std::to_string(g.N) + " x " + std::to_string(g.K));
    }
    if (bias_left) matmul.bias_N = nullptr;
    const double beta = g.accumulate || add_as_c ? 1 : 0;
    const float alpha_f32 = static_cast<float>(g.alpha), beta_f32 = static_cast<float>(beta);
    const bool f64 = g.dtype == DType::f64;
    cublas.run(*prepared, f64 ? static_cast<const void*>(&g.alpha) : &alpha_f32,
               f64 ? static_cast<const void*>(&beta) : &beta_f32, matmul, c, stream);
  }
  if (bias_left) add_to(stream, g, g.bias_N, bias_dtype(g.dtype), 0);
  if (g.add_MN && !add_as_c) add_to(stream, g, g.add_MN, g.out, g.N);
}

}  // namespace lt::kernels
