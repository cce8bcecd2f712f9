// The CPU's matrix product: oneDNN if it is built in and supports the processor, libtrain's loops otherwise and for f64
// and f16.
#include "kernels/gemm.h"

#include <string>

#include "kernels/cpu/gemm_loops.h"
#include "kernels/cpu/map.h"
#include "kernels/gemm_in_passes.h"
#include "libtrain/error.h"

namespace lt::kernels {
namespace {

void multiply(const Gemm& g) {
  if (g.K > 0 && g.dtype != DType::f64 && gemm_onednn(g)) return;
  gemm_loops(g);
}

// The product, then the factor in a separate pass.
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

}  // namespace

template <>
void gemm(CpuStream stream, const Gemm& g) {
  require_plain_factor(g);
  if (has_passes(g)) return gemm_in_passes(stream, g);
  if (g.out != g.dtype && !(dtype_bytes(g.dtype) == 2 && g.out == DType::f32)) {
    throw InternalError("kernels", "gemm: expected an output of the inputs' dtype " + std::string(dtype_name(g.dtype)) +
                                       ", or f32 for bf16 and f16, found " + std::string(dtype_name(g.out)));
  }
  if (g.M <= 0 || g.N <= 0 || g.batch <= 0) return;
  g.alpha == 1 ? multiply(g) : multiply_with_factor(g);
}

}  // namespace lt::kernels
