// Measures a device's limits with loops that do nothing else.
#include "bench/floor.h"

#include <algorithm>
#include <cmath>

#include "bench/kernel_case.h"
#include "bench/timing.h"
#include "device/cuda.h"
#include "kernels/cpu/tile.h"
#include "kernels/gemm.h"
#include "libtrain/tensor/tensor.h"
#include "tensor/dispatch.h"

namespace lt::bench {
namespace {

constexpr int kCalls = 20;                                                       // per measurement; the shortest counts
constexpr Size kLeastBytes = Size{1} << 14, kMostBytes = Size{1} << 29;          // array sizes
constexpr Size kLeastCopyBytes = Size{1} << 23, kMostCopyBytes = Size{1} << 30;  // array sizes on CUDA
constexpr Size kPassedBytes = Size{1} << 26;                                     // least per call, in several passes

Size threads() { return kernels::parallel_ranges(Size{1} << 30, 1); }

// Rate of f32 multiply-adds over all threads, in FLOP/s. The independent sums hide the latency of each operation.
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

// Keeps the compiler from merging two passes into one.
inline void end_pass() { asm volatile("" ::: "memory"); }

// Bytes per second of passes over an array of `bytes` bytes by all threads, each over its own part. passes(begin, end,
// count) makes `count` passes over one part and returns a number that depends on the values it read.
template <class Passes>
double pass_rate(Size bytes, Passes passes) {
  const Size N = bytes / 4, kThreads = threads(), count = std::max<Size>(1, kPassedBytes / bytes);
  std::vector<float> results(static_cast<std::size_t>(kThreads));
  float* const out = results.data();
  const Size part = (N + kThreads - 1) / kThreads;
  const double best = best_ms(kCalls, [&] {
    kernels::parallel_for(N, 1,
                          [=](Size begin, Size end) LT_VECTOR_BODY { out[begin / part] = passes(begin, end, count); });
  });
  return static_cast<double>(bytes * count) / best * 1e3;
}

MemoryRate measure_memory(Size bytes) {
  std::vector<float> data(static_cast<std::size_t>(bytes / 4), 1.0f);
  float* const x = data.data();
  const double reads = pass_rate(bytes, [=](Size begin, Size end, Size count) LT_VECTOR_BODY {
    constexpr Size kLanes = 128;  // enough independent sums to hide the latency of each
    float sum[kLanes] = {};
    for (Size pass = 0; pass < count; ++pass) {
      Size i = begin;
      for (; i + kLanes <= end; i += kLanes) {
#pragma omp simd
        for (Size k = 0; k < kLanes; ++k) sum[k] += x[i + k];
      }
      for (; i < end; ++i) sum[0] += x[i];
      end_pass();
    }
    return *std::max_element(sum, sum + kLanes);
  });
  const double updates = pass_rate(bytes, [=](Size begin, Size end, Size count) LT_VECTOR_BODY {
    for (Size pass = 0; pass < count; ++pass) {
#pragma omp simd
      for (Size i = begin; i < end; ++i) x[i] = x[i] * 0.5f + 0.5f;
      end_pass();
    }
    return x[begin];
  });
  return {bytes, reads, 2 * updates};
}

Floor measure_cuda_floor(Device device) {
  Floor floor{1, device::cuda::multiply_add_flops(device.index), {}, true};
  for (Size bytes = kLeastCopyBytes; bytes <= kMostCopyBytes; bytes *= 2) {
    const Tensor from = Tensor::zeros({bytes}, DType::u8, device), to = Tensor::zeros({bytes}, DType::u8, device);
    const auto ms = time_calls(
        1, 20, 200, [&] { copy(to, from); }, device);
    const double rate = 2e3 * static_cast<double>(bytes) / *std::min_element(ms.begin(), ms.end());
    floor.memory.push_back({bytes, rate, rate});
  }
  return floor;
}

// Rate of D = A B for bf16 matrices, in FLOP/s.
double matmul_flops(Device device, Size M, Size N, Size K) {
  const Tensor a = random_values({M, K}, DType::bf16, device), b = random_values({K, N}, DType::bf16, device);
  const Tensor d = Tensor::empty({M, N}, DType::bf16, device);
  const auto multiply = [&] {
    tensor::dispatch(device, [&](auto stream) {
      kernels::gemm(stream, {.M = M,
                             .N = N,
                             .K = K,
                             .a = a.data(),
                             .b = b.data(),
                             .d = d.data(),
                             .dtype = DType::bf16,
                             .out = DType::bf16});
    });
  };
  const auto ms = time_calls(1, 20, 200, multiply, device);
  return 2 * static_cast<double>(M) * static_cast<double>(N * K) / *std::min_element(ms.begin(), ms.end()) * 1e3;
}

// Bytes per second, read plus written, of a copy between two arrays that together hold `footprint` bytes.
double copy_rate(const std::vector<MemoryRate>& memory, Size footprint) {
  const auto above =
      std::find_if(memory.begin(), memory.end(), [=](const MemoryRate& r) { return 2 * r.bytes >= footprint; });
  if (above == memory.begin()) return above->reads_per_s;
  if (above == memory.end()) return memory.back().reads_per_s;
  const auto below = above - 1;
  const auto bytes = [](const MemoryRate& r) { return 2 * static_cast<double>(r.bytes); };
  const auto seconds = [&](const MemoryRate& r) { return bytes(r) / r.reads_per_s; };
  const double wanted = static_cast<double>(footprint),
               share = (wanted - bytes(*below)) / (bytes(*above) - bytes(*below));
  return wanted / std::lerp(seconds(*below), seconds(*above), share);
}

}  // namespace

double Floor::memory_rate(Size footprint) const {
  if (copies) return copy_rate(memory, footprint);
  double best = 0;
  for (const MemoryRate& rate : memory) {
    if (2 * rate.bytes > footprint || &rate == &memory.back())
      best = std::max({best, rate.reads_per_s, rate.updates_per_s});
  }
  return best;
}

Floor measure_floor(Device device) {
  if (device.type == DeviceType::cuda) return measure_cuda_floor(device);
  Floor floor{threads(), multiply_add_flops(), {}};
  for (Size bytes = kLeastBytes; bytes <= kMostBytes; bytes *= 2) floor.memory.push_back(measure_memory(bytes));
  return floor;
}

double measure_bf16_matmuls(Device device) {
  const bool cuda = device.type == DeviceType::cuda;
  const Size scale = cuda ? 8 : 1;
  double best = 0;
  for (const Size n : {256, 512, 1024, 2048})
    best = std::max(best, matmul_flops(device, scale * n, scale * n, scale * n));
  for (const Size n : {256, 512, 1024}) best = std::max(best, matmul_flops(device, scale * 2048, scale * n, scale * n));
  return best;
}

}  // namespace lt::bench
