// Measures the limits: loops that do nothing else.
#include "floor.h"

#include <algorithm>

#include "kernels/cpu/tile.h"
#include "kernels/gemm.h"
#include "libtrain/tensor.h"
#include "timing.h"

namespace lt::bench {
namespace {

constexpr int kCalls = 20;  // of each, the shortest counts
constexpr Size kKiB = 1024, kMiB = 1024 * kKiB;
constexpr Size kReadSizes[] = {512 * kKiB, 4 * kMiB, 32 * kMiB, 512 * kMiB};

Size threads() { return kernels::parallel_ranges(Size{1} << 30, 1); }

// f32 multiply-adds of all threads, in FLOP/s: as many independent sums as hide the latency of each.
double multiply_add_flops() {
  constexpr Size kRounds = 1 << 20, kSums = 14;
  const Size kThreads = threads();
  std::vector<float> results(static_cast<std::size_t>(kThreads));
  double flops = 0;
  float* const out = results.data();
  double* const work = &flops;
  const double best = best_ms(kCalls, [&] {
    kernels::parallel_for(kThreads, 1, [=](Size begin, Size, auto bytes) LT_VECTOR_BODY {
      using Vector = typename kernels::Tile<float, decltype(bytes)::value>::Vector;
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
  return flops * static_cast<double>(kThreads) / best * 1e3;
}

// Bytes a second that all threads read of `bytes` bytes, each its own part.
double read_rate(Size bytes) {
  const Size N = bytes / 4, kThreads = threads();
  const std::vector<float> data(static_cast<std::size_t>(N), 1.0f);
  std::vector<float> results(static_cast<std::size_t>(kThreads));
  const float* const x = data.data();
  float* const out = results.data();
  const Size passes = std::max<Size>(1, (Size{1} << 28) / bytes), part = (N + kThreads - 1) / kThreads;
  const double best = best_ms(kCalls, [&] {
    kernels::parallel_for(N, 1, [=](Size begin, Size end) LT_VECTOR_BODY {
      constexpr Size kLanes = 64;
      float sum[kLanes] = {};
      for (Size pass = 0; pass < passes; ++pass) {
        for (Size i = begin; i + kLanes <= end; i += kLanes) {
#pragma omp simd
          for (Size k = 0; k < kLanes; ++k) sum[k] += x[i + k];
        }
      }
      out[begin / part] = *std::max_element(sum, sum + kLanes);
    });
  });
  return static_cast<double>(bytes * passes) / best * 1e3;
}

}  // namespace

double Floor::read_rate(Size bytes) const {
  const auto large =
      std::find_if(reads.begin(), reads.end(), [&](const ReadRate& rate) { return rate.bytes >= bytes; });
  return large == reads.end() ? reads.back().bytes_per_s : large->bytes_per_s;
}

Floor measure_floor() {
  Floor floor{threads(), multiply_add_flops(), {}};
  for (const Size bytes : kReadSizes) floor.reads.push_back({bytes, read_rate(bytes)});
  return floor;
}

double measure_bf16_products() {
  double best = 0;
  for (const Size n : {1024, 2048}) {
    const Tensor a = Tensor::zeros({n, n}, DType::bf16), b = Tensor::zeros({n, n}, DType::bf16);
    const Tensor d = Tensor::empty({n, n}, DType::bf16);
    fill(a, 1), fill(b, 1);
    const auto ms = time_calls(1, 10, 300, [&] {
      kernels::gemm(CpuStream{}, {.M = n,
                                  .N = n,
                                  .K = n,
                                  .a = a.data(),
                                  .b = b.data(),
                                  .d = d.data(),
                                  .dtype = DType::bf16,
                                  .out = DType::bf16});
    });
    const auto N = static_cast<double>(n);
    best = std::max(best, 2 * N * N * N / *std::min_element(ms.begin(), ms.end()) * 1e3);
  }
  return best;
}

}  // namespace lt::bench
