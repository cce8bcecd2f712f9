// The limits of this processor that docs/performance.md holds a step against: fused multiply-adds in registers, and
// reads of arrays that fit the caches or do not. On OMP_NUM_THREADS threads; prints one JSON object.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "kernels/cpu/tile.h"

namespace {

using lt::Size;

const Size kThreads = lt::kernels::parallel_ranges(Size{1} << 30, 1);

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The shortest of 20 calls, in seconds.
template <class F>
double best_of(F f) {
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const double start = seconds();
    f();
    best = std::min(best, seconds() - start);
  }
  return best;
}

// f32 multiply-adds of all threads, in FLOP/s: as many independent sums as hide the latency of each.
double multiply_add_flops() {
  constexpr Size kRounds = 1 << 20, kSums = 14;
  std::vector<float> results(static_cast<std::size_t>(kThreads));
  double flops = 0;
  float* const out = results.data();
  double* const work = &flops;
  const double best = best_of([&] {
    lt::kernels::parallel_for(kThreads, 1, [=](Size begin, Size, auto bytes) LT_VECTOR_BODY {
      using Vector = typename lt::kernels::Tile<float, decltype(bytes)::value>::Vector;
      const Vector x = Vector{} + 0.999f, y = Vector{} + 0.001f;
      Vector sum[kSums];
      for (Size k = 0; k < kSums; ++k) sum[k] = Vector{} + static_cast<float>(k + begin);
      for (Size i = 0; i < kRounds; ++i) {
#pragma GCC unroll 14
        for (Size k = 0; k < kSums; ++k) sum[k] = sum[k] * x + y;
      }
      for (Size k = 1; k < kSums; ++k) sum[0] += sum[k];
      out[begin] = sum[0][0];
      if (begin == 0) *work = 2.0 * kRounds * kSums * (bytes / 4);
    });
  });
  return flops * static_cast<double>(kThreads) / best;
}

// Bytes a second that all threads read of `bytes` bytes, each its own part.
double read_rate(Size bytes) {
  const Size N = bytes / 4;
  const std::vector<float> data(static_cast<std::size_t>(N), 1.0f);
  std::vector<float> results(static_cast<std::size_t>(kThreads));
  const float* const x = data.data();
  float* const out = results.data();
  const Size passes = std::max<Size>(1, (Size{1} << 28) / bytes);
  return static_cast<double>(bytes * passes) / best_of([&] {
           lt::kernels::parallel_for(N, 1, [=](Size begin, Size end) LT_VECTOR_BODY {
             constexpr Size kLanes = 64;
             float sum[kLanes] = {};
             for (Size pass = 0; pass < passes; ++pass) {
               for (Size i = begin; i + kLanes <= end; i += kLanes) {
#pragma omp simd
                 for (Size k = 0; k < kLanes; ++k) sum[k] += x[i + k];
               }
             }
             out[begin / ((N + kThreads - 1) / kThreads)] = *std::max_element(sum, sum + kLanes);
           });
         });
}

}  // namespace

int main() {
  std::printf(
      "{\"threads\": %ld, \"f32_gflops\": %.0f, \"read_4mb_gb_s\": %.1f, \"read_32mb_gb_s\": %.1f, "
      "\"read_512mb_gb_s\": %.1f}\n",
      kThreads, multiply_add_flops() * 1e-9, read_rate(Size{4} << 20) * 1e-9, read_rate(Size{32} << 20) * 1e-9,
      read_rate(Size{512} << 20) * 1e-9);
}
