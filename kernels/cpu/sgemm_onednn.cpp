// f32 matmuls without epilogue through oneDNN's sgemm. If the output is small and K is large, as for a weight's
// gradient, each thread sums over its own rows of both operands. The thread worked on these rows in the preceding
// kernels, so they are in its cache, and it reads them in order.
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "kernels/cpu/map.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/scratch.h"

namespace lt::kernels {
namespace {

constexpr Size kSumElements = 1 << 18;  // largest D that each thread gets a private copy of
constexpr Size kSumRows = 256;          // fewer rows per thread do not repay it

// A Gemm with explicit row strides.
struct Sgemm {
  const float *a, *b;
  float* d;
  Size M, N, K, lda, ldb, ldd;
  bool transpose_a, transpose_b;

  explicit Sgemm(const Gemm& g)
      : a(static_cast<const float*>(g.a)),
        b(static_cast<const float*>(g.b)),
        d(static_cast<float*>(g.d)),
        M(g.M),
        N(g.N),
        K(g.K),
        lda(g.lda ? g.lda : (g.transpose_a ? g.M : g.K)),
        ldb(g.ldb ? g.ldb : (g.transpose_b ? g.K : g.N)),
        ldd(g.ldd ? g.ldd : g.N),
        transpose_a(g.transpose_a),
        transpose_b(g.transpose_b) {}

  // D = A B, or D += A B.
  dnnl_status_t run(bool add) const {
    return dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', M, N, K, 1.0f, a, lda, b, ldb,
                      add ? 1.0f : 0.0f, d, ldd);
  }

  // The same matmul, but summed only over k in [begin, end).
  Sgemm range(Size begin, Size end) const {
    Sgemm part = *this;
    part.K = end - begin;
    part.a += begin * (transpose_a ? lda : 1);
    part.b += begin * (transpose_b ? 1 : ldb);
    return part;
  }
};

// The first thread's sum goes straight into D; the others are added to it in order.
dnnl_status_t run_in_parts(const Sgemm& matmul, Size parts, bool accumulate) {
  std::atomic<dnnl_status_t> status{dnnl_success};
  const Size elements = matmul.M * matmul.N;
  float* const sums = scratch<float>(std::max<Size>((parts - 1) * elements, 1));
  parallel_for(parts, 1, [=, to = &status](Size begin, Size end) LT_VECTOR_BODY {
    for (Size i = begin; i < end; ++i) {
      Sgemm part = matmul.range(matmul.K * i / parts, matmul.K * (i + 1) / parts);
      if (i > 0) part.d = sums + (i - 1) * elements, part.ldd = matmul.N;
      if (const dnnl_status_t s = part.run(i == 0 && accumulate); s != dnnl_success) *to = s;
    }
  });
  parallel_for(matmul.M, row_grain(matmul.N), [=](Size begin, Size end) LT_VECTOR_BODY {
    for (Size m = begin; m < end; ++m) {
      float* const d = matmul.d + m * matmul.ldd;
      for (Size i = 0; i < parts - 1; ++i) {
        const float* const sum = sums + i * elements + m * matmul.N;
#pragma omp simd
        for (Size n = 0; n < matmul.N; ++n) d[n] += sum[n];
      }
    }
  });
  return status;
}

}  // namespace

bool sgemm_onednn(const Gemm& g) {
  if (g.bias_N != nullptr || g.add_MN != nullptr || g.batch != 1) return false;
  const Sgemm matmul(g);
  const Size parts = parallel_ranges(g.K, kSumRows);
  const bool cut = g.transpose_a && g.M * g.N <= kSumElements && parts > 1;
  const dnnl_status_t status = cut ? run_in_parts(matmul, parts, g.accumulate) : matmul.run(g.accumulate);
  if (status != dnnl_success) {
    throw InternalError("kernels", "sgemm of " + std::to_string(g.M) + " x " + std::to_string(g.N) + " x " +
                                       std::to_string(g.K) + ": oneDNN's status is " + std::to_string(status));
  }
  return true;
}

}  // namespace lt::kernels
