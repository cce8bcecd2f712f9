// The matmul on the CPU: oneDNN if it is built in and supports the processor, libtrain's loops otherwise and for f64
// and f16.
#include "kernels/gemm.h"

#include <string>

#include "kernels/cpu/gemm_loops.h"
#include "kernels/cpu/map.h"
#include "kernels/cpu/scratch.h"
#include "kernels/gemm_in_passes.h"
#include "libtrain/error.h"

namespace lt::kernels {
namespace {

void multiply(const Gemm& g) {
  if (g.K > 0 && g.dtype != DType::f64 && gemm_onednn(g)) return;
  gemm_loops(g);
}

// The matmul, then the factor in a separate pass.
void multiply_with_factor(const Gemm& g) {
  multiply(g);
  dispatch_float(g.out, [&]<class T>() {
    const auto alpha = static_cast<Arithmetic<T>>(g.alpha);
    for (Size item = 0; item < g.batch; ++item) {
      T* const d = static_cast<T*>(g.d) + item * g.stride_d;
      map(d, g.M * g.N, false, [=](Size i) LT_VECTOR_BODY { return alpha * load(d[i]); });
    }
  });
}

// y_RC = what x_RC stands for. Powers of two times numbers of 4 bits are exact in bf16.
void dequantize(bf16* y_RC, const void* x_RC, const float* scales, bool one_scale, Size R, Size C) {
  const e4m3* const x_begin = static_cast<const e4m3*>(x_RC);
  parallel_for(R, row_grain(C), [=](Size begin, Size end) LT_VECTOR_BODY {
    for (Size r = begin; r < end; ++r) {
      const float scale = scales[one_scale ? 0 : r];
      const e4m3* const x = x_begin + r * C;
      bf16* const y = y_RC + r * C;
#pragma omp simd
      for (Size c = 0; c < C; ++c) y[c].bits = bf16(static_cast<float>(x[c]) * scale).bits;
    }
  });
}

// The same matmul of bf16 numbers, in scratch memory of a type that no other kernel uses.
Gemm dequantized(Gemm g) {
  bf16* const a = scratch<bf16>((g.M + g.N) * g.K);
  bf16* const b = a + g.M * g.K;
  dequantize(a, g.a, g.a_scales, g.one_scale, g.M, g.K);
  dequantize(b, g.b, g.b_scales, g.one_scale, g.N, g.K);
  g.a = a, g.b = b, g.dtype = DType::bf16;
  return g;
}

}  // namespace

template <>
void gemm(CpuStream stream, const Gemm& g) {
  require_plain_factor(g);
  require_scaled_operands(g);
  if (g.dtype == DType::e4m3) return gemm(stream, dequantized(g));
  if (has_passes(g)) return gemm_in_passes(stream, g);
  if (g.out != g.dtype && !(dtype_bytes(g.dtype) == 2 && g.out == DType::f32)) {
    throw InternalError("kernels", "gemm: expected an output of the inputs' dtype " + std::string(dtype_name(g.dtype)) +
                                       ", or f32 for bf16 and f16, found " + std::string(dtype_name(g.out)));
  }
  if (g.M <= 0 || g.N <= 0 || g.batch <= 0) return;
  g.alpha == 1 ? multiply(g) : multiply_with_factor(g);
}

}  // namespace lt::kernels
