// Skinny matmuls on the GPU. A warp takes two rows of b (with `gated`, a row of the gate and its row of up), so that
// each number of a that it reads is used twice. Each lane copies its part of the rows to shared memory, two chunks
// ahead, so that many bytes are in flight while few registers are used. On compute capability 9.0 and above the kernel
// may start before the kernel that writes a has ended, and fetches the first chunks of b meanwhile (programmatic
// dependent launch). The norm's factor 1 / rms is the same for all terms of a row, so every warp sums the squares
// during the matmul and multiplies at the end. This needs no extra pass over a.
#include "kernels/skinny_matmul.h"

#include "kernels/cuda/activation_functions.cuh"
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/packed.cuh"

namespace lt::kernels {
namespace {

constexpr int kSkinnyThreads = 128, kSkinnyWarps = kSkinnyThreads / kWarp;
constexpr int kColumns = 2;  // rows of b, which are columns of d, of a warp
constexpr int kLoads = 4;    // packs of each in a chunk of a lane
constexpr int kChunks = 2;   // under way

template <class T>
struct Operands {
  T* d;
  const T *a, *b, *bias, *add, *norm_w;
  float norm_eps;
  int M, N, packs;  // packs of a row
};

enum class Form { plain, normed, gated };  // gated: normed too

// Begins to copy 16 bytes to shared memory, or zeros.
__device__ inline void copy_async(void* to, const void* from, bool is_inside) {
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(is_inside ? 16 : 0)
               : "memory");
}
// Copies since the last call are a group.
__device__ inline void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most kLeft groups of this thread are under way.
template <int kLeft>
__device__ inline void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

template <class T, int kRows, Form kForm>
__global__ void __launch_bounds__(kSkinnyThreads, kRows == 1  ? 7
                                                  : kRows < 8 ? 4
                                                              : 3) skinny_matmul_kernel(Operands<T> x) {
  constexpr bool kNormed = kForm != Form::plain, kGated = kForm == Form::gated;
  constexpr int kOutputs = kGated ? 1 : kColumns;                           // of a warp and row
  __shared__ Packed<T> fetched[kChunks][kLoads][kColumns][kSkinnyThreads];  // a thread uses its own elements alone
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  const int first = (static_cast<int>(blockIdx.x) * kSkinnyWarps + thread / kWarp) * kOutputs;
  const auto* const a = reinterpret_cast<const Packed<T>*>(x.a);
  const auto* const norm_w = reinterpret_cast<const Packed<T>*>(x.norm_w);
  const Packed<T>* b[kColumns];
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    const int wanted = kGated ? first : first + n, row = (wanted < x.N ? wanted : x.N - 1) + (kGated ? n * x.N : 0);
    b[n] = reinterpret_cast<const Packed<T>*>(x.b) + static_cast<Size>(row) * x.packs;
  }
  const auto fetch = [&](int at, int chunk) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int pack = at + i * kWarp;
      const bool is_inside = pack < x.packs;  // zeros beyond add nothing
#pragma unroll
      for (int n = 0; n < kColumns; ++n)
        copy_async(&fetched[chunk][i][n][thread], b[n] + (is_inside ? pack : 0), is_inside);
    }
    end_group();
  };
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) fetch(lane + chunk * kLoads * kWarp, chunk);
  let_next_kernel_start();
  wait_for_earlier_kernels();
  float sums[kRows][kColumns] = {}, squares[kRows] = {};
  int chunk = 0;
  for (int at = lane; at < x.packs; at += kLoads * kWarp) {
    wait_for_groups<kChunks - 1>();
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const bool is_inside = at + i * kWarp < x.packs;
      const int pack = is_inside ? at + i * kWarp : x.packs - 1;
      Packed<T> w[kColumns], scale;
#pragma unroll
      for (int n = 0; n < kColumns; ++n) w[n] = fetched[chunk][i][n][thread];
      if constexpr (kNormed) scale = norm_w[pack];
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        const Packed<T> v = a[static_cast<Size>(m < x.M ? m : 0) * x.packs + pack];
        float square = 0;
#pragma unroll
        for (int k = 0; k < Packed<T>::kCount; ++k) {
          const float value = kNormed ? v[k] * scale[k] : v[k];
          if constexpr (kNormed) square = fmaf(v[k], v[k], square);
#pragma unroll
          for (int n = 0; n < kColumns; ++n) sums[m][n] += value * w[n][k];
        }
        if (kNormed && is_inside) squares[m] += square;
      }
    }
    fetch(at + kChunks * kLoads * kWarp, chunk);
    chunk = (chunk + 1) % kChunks;
  }
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
    float factor = 1;
    if constexpr (kNormed) {
      factor = 1.0f / sqrtf(warp_sum(squares[m]) / static_cast<float>(x.packs * Packed<T>::kCount) + x.norm_eps);
    }
    float product[kColumns];
#pragma unroll
    for (int n = 0; n < kColumns; ++n) product[n] = warp_sum(sums[m][n]) * factor;
    if constexpr (kGated) product[0] = product[0] * sigmoid(product[0]) * product[1];
    if (lane != 0 || m >= x.M) continue;
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) {
      if (first + n >= x.N) continue;
      const Size at = static_cast<Size>(m) * x.N + first + n;
      if (x.bias != nullptr) product[n] += load(x.bias[first + n]);
      if (x.add != nullptr) product[n] += load(x.add[at]);
      x.d[at] = store<T>(product[n]);
    }
  }
}

template <class T, Form kForm>
void launch_skinny_matmul(CudaStream stream, const Operands<T>& x) {
  constexpr int kOfBlock = kSkinnyWarps * (kForm == Form::gated ? 1 : kColumns);
  const auto run = [&]<int kRows>() {
    launch_early(stream, skinny_matmul_kernel<T, kRows, kForm>, (x.N + kOfBlock - 1) / kOfBlock, kSkinnyThreads, x);
  };
  if (x.M == 1) return run.template operator()<1>();
  if (x.M == 2) return run.template operator()<2>();
  if (x.M <= 4) return run.template operator()<4>();
  run.template operator()<8>();
}

}  // namespace

void skinny_matmul(CudaStream stream, const SkinnyMatmul& p) {
  if (p.M == 0 || p.N == 0) return;
  if (!supports_skinny_matmul(p.dtype, p.M, p.K) || !aligned(p.a_MK, p.b, p.norm_w_K) || p.N > 1 << 27) {
    throw InternalError("kernels", "skinny_matmul: expected at most 8 aligned rows of whole packs");
  }
  if (p.gated && (p.norm_w_K == nullptr || p.bias_N != nullptr || p.add_MN != nullptr)) {
    throw InternalError("kernels", "skinny_matmul: expected a norm before gates, and nothing added to them");
  }
  dispatch_float(p.dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      const auto of = [](const void* x) { return static_cast<const T*>(x); };
      const Operands<T> x{static_cast<T*>(p.d_MN),
                          of(p.a_MK),
                          of(p.b),
                          of(p.bias_N),
                          of(p.add_MN),
                          of(p.norm_w_K),
                          p.norm_eps,
                          static_cast<int>(p.M),
                          static_cast<int>(p.N),
                          static_cast<int>(p.K / kPack<T>)};
      if (p.gated) return launch_skinny_matmul<T, Form::gated>(stream, x);
      if (p.norm_w_K != nullptr) return launch_skinny_matmul<T, Form::normed>(stream, x);
      launch_skinny_matmul<T, Form::plain>(stream, x);
    }
  });
}

}  // namespace lt::kernels
