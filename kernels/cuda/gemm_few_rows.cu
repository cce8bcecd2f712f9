// d_MN = a_MK b_NK^T (+ bias_N) (+ add_MN) for few rows M. A warp takes two rows of b, so that each number of a that it
// reads serves twice, and keeps eight loads of 16 bytes in flight. On compute capability 9.0 and above the kernel may
// start before the one that writes a has ended, and then loads the first of b meanwhile (programmatic dependent
// launch).
#include "kernels/cuda/gemm_few_rows.h"

#include "kernels/cuda/common.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/packed.cuh"

namespace lt::kernels {
namespace {

constexpr int kFewThreads = 128, kFewWarps = kFewThreads / kWarp;
constexpr int kColumns = 2;  // rows of b, which are columns of d, of a warp
constexpr int kLoads = 4;    // of each at once

template <class T>
struct FewRows {
  T* d;
  const T *a, *b, *bias, *add;
  int M, N, packs;  // packs of a row
};

template <class T, int kRows>
__global__ void __launch_bounds__(kFewThreads) few_rows_kernel(FewRows<T> x) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int first = (static_cast<int>(blockIdx.x) * kFewWarps + static_cast<int>(threadIdx.x) / kWarp) * kColumns;
  const auto* const a = reinterpret_cast<const Packed<T>*>(x.a);
  const Packed<T>* b[kColumns];
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    const int row = first + n < x.N ? first + n : x.N - 1;
    b[n] = reinterpret_cast<const Packed<T>*>(x.b) + static_cast<Size>(row) * x.packs;
  }
  float sums[kRows][kColumns] = {};
  Packed<T> next[kLoads][kColumns];
  const auto load_at = [&](int at) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int pack = at + i * kWarp;
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        next[i][n] = pack < x.packs ? b[n][pack] : Packed<T>{};  // zeros add nothing
      }
    }
  };
  load_at(lane);
  wait_for_earlier_kernels();
  let_next_kernel_start();
  for (int at = lane; at < x.packs; at += kLoads * kWarp) {
    Packed<T> w[kLoads][kColumns];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
#pragma unroll
      for (int n = 0; n < kColumns; ++n) w[i][n] = next[i][n];
    }
    if (at + kLoads * kWarp < x.packs) load_at(at + kLoads * kWarp);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int pack = at + i * kWarp < x.packs ? at + i * kWarp : x.packs - 1;
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        const Packed<T> v = a[static_cast<Size>(m < x.M ? m : 0) * x.packs + pack];
#pragma unroll
        for (int k = 0; k < Packed<T>::kCount; ++k) {
#pragma unroll
          for (int n = 0; n < kColumns; ++n) sums[m][n] += v[k] * w[i][n][k];
        }
      }
    }
  }
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      float sum = warp_sum(sums[m][n]);
      if (lane != 0 || m >= x.M || first + n >= x.N) continue;
      const Size at = static_cast<Size>(m) * x.N + first + n;
      if (x.bias != nullptr) sum += load(x.bias[first + n]);
      if (x.add != nullptr) sum += load(x.add[at]);
      x.d[at] = store<T>(sum);
    }
  }
}

template <class T, int kRows>
void launch_few_rows(CudaStream stream, const FewRows<T>& x) {
  constexpr int kOfBlock = kFewWarps * kColumns;
  launch_early(stream, few_rows_kernel<T, kRows>, (x.N + kOfBlock - 1) / kOfBlock, kFewThreads, x);
}

}  // namespace

bool gemm_few_rows(CudaStream stream, const Gemm& g) {
  const bool is_plain = g.settings.constant_weights && g.transpose_b && !g.transpose_a && !g.accumulate && !g.pinned &&
                        g.batch == 1 && g.alpha == 1 && g.out == g.dtype && g.dtype != DType::f64 && !g.gelu_input_MN &&
                        !g.gelu_gradient_of_MN && !g.sum_a_M;
  const bool is_contiguous =
      (g.lda == 0 || g.lda == g.K) && (g.ldb == 0 || g.ldb == g.K) && (g.ldd == 0 || g.ldd == g.N);
  if (!is_plain || !is_contiguous || g.M > kMostFewRows || g.N > 1 << 28 || !aligned(g.a, g.b)) return false;
  if (g.K == 0 || g.K * dtype_bytes(g.dtype) % 16 != 0) return false;
  dispatch_float(g.dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      const FewRows<T> x{static_cast<T*>(g.d),
                         static_cast<const T*>(g.a),
                         static_cast<const T*>(g.b),
                         static_cast<const T*>(g.bias_N),
                         static_cast<const T*>(g.add_MN),
                         static_cast<int>(g.M),
                         static_cast<int>(g.N),
                         static_cast<int>(g.K / kPack<T>)};
      if (g.M == 1) return launch_few_rows<T, 1>(stream, x);
      if (g.M == 2) return launch_few_rows<T, 2>(stream, x);
      if (g.M <= 4) return launch_few_rows<T, 4>(stream, x);
      launch_few_rows<T, 8>(stream, x);
    }
  });
  return true;
}

}  // namespace lt::kernels
