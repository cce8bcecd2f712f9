// A kernel that reads rows from a source and quantizes each row to e4m3 by its own scale.
#pragma once

#include <cuda_fp8.h>

#include "kernels/cuda/packed.cuh"
#include "kernels/quantize.h"

namespace lt::kernels {

__device__ inline std::uint32_t magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }

// 16 numbers in e4m3: value(0), value(1), ...
template <class F>
__device__ uint4 sixteen_e4m3(F&& value) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto pair = [&](int k) -> std::uint32_t {
      return __nv_cvt_float2_to_fp8x2(make_float2(value(k), value(k + 1)), __NV_SATFINITE, __NV_E4M3);
    };
    words[i] = pair(4 * i) | pair(4 * i + 2) << 16;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// 16 numbers of a row as they are in memory.
template <class T>
struct Sixteen;
template <>
struct Sixteen<bf16> {
  Packed<bf16> packs[2];

  __device__ static Sixteen at(const bf16* x) {
    const auto* const packs = reinterpret_cast<const Packed<bf16>*>(x);
    return {{packs[0], packs[1]}};
  }
  // value(0), value(1), ... rounded to nearest even.
  template <class F>
  __device__ static Sixteen of(F&& value) {
    Sixteen x;
    x.packs[0].fill([&](int k) { return value(k); });
    x.packs[1].fill([&](int k) { return value(8 + k); });
    return x;
  }
  __device__ float operator[](int k) const { return packs[k / 8][k % 8]; }
};
template <>
struct Sixteen<e4m3> {
  uint4 bytes;

  __device__ static Sixteen at(const e4m3* x) { return {*reinterpret_cast<const uint4*>(x)}; }
  __device__ float operator[](int k) const {
    const std::uint32_t words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
    const auto byte = static_cast<__nv_fp8_storage_t>(words[k / 4] >> (8 * (k % 4)));
    return __half2float(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3));
  }
};

// A row's numbers in a block, in units of 16 ("sixteens"). Thread t has the sixteens t, t + blockDim.x, ... of each of
// the row's kParts parts.
template <int kHeld, int kParts>
struct HeldRow {
  Sixteen<bf16> values[kHeld][kParts];
  int count;  // sixteens of a part

  // Calls f(values, sixteen of the part, part) for each sixteen of the thread.
  template <class F>
  __device__ void for_each(F&& f) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * static_cast<int>(blockDim.x);
      if (at >= count) break;
#pragma unroll
      for (int part = 0; part < kParts; ++part) f(values[i][part], at, part);
    }
  }
};

// Fills a row from a source, which has either load(), for the whole row, or at(r, sixteen of the part, part).
template <int kHeld, class Source>
__device__ void load_row(HeldRow<kHeld, Source::kParts>& row, const Source& source, Size r) {
  if constexpr (requires { source.load(row, r); }) {
    source.load(row, r);
  } else {
    row.for_each([&](Sixteen<bf16>& values, int at, int part) { values = source.at(r, at, part); });
  }
}

// One block per row of C columns.
template <int kHeld, class Source>
__global__ void __launch_bounds__(kHeld == 8 ? 1024 : 512)
    quantize_rows_kernel(e4m3* y_RC, float* scales_R, Source source, Size C) {
  constexpr int kParts = Source::kParts;
  const Size r = blockIdx.x;
  HeldRow<kHeld, kParts> row;
  row.count = static_cast<int>(C / 16 / kParts);
  load_row(row, source, r);
  std::uint32_t largest = 0;
  row.for_each([&](const Sixteen<bf16>& values, int, int) {
#pragma unroll
    for (int k = 0; k < 16; ++k) largest = max(largest, magnitude(values[k]));
  });
  const float scale = e4m3_scale(__uint_as_float(block_max(largest, 0u))), factor = 1 / scale;
  if (threadIdx.x == 0) scales_R[r] = scale;
  auto* const y = reinterpret_cast<uint4*>(y_RC + r * C);
  row.for_each([&](const Sixteen<bf16>& values, int at, int part) {
    y[part * row.count + at] = sixteen_e4m3([&](int k) { return values[k] * factor; });
  });
}

// Like quantize_rows_kernel(), but writes the numbers in bf16.
template <int kHeld, class Source>
__global__ void __launch_bounds__(kHeld == 8 ? 1024 : 512) write_rows_kernel(bf16* y_RC, Source source, Size C) {
  constexpr int kParts = Source::kParts;
  const Size r = blockIdx.x;
  HeldRow<kHeld, kParts> row;
  row.count = static_cast<int>(C / 16 / kParts);
  load_row(row, source, r);
  auto* const y = reinterpret_cast<Packed<bf16>*>(y_RC + r * C);
  row.for_each([&](const Sixteen<bf16>& values, int at, int part) {
    for (int i = 0; i < 2; ++i) y[2 * (part * row.count + at) + i] = values.packs[i];
  });
}

// Calls launch(held, threads) for rows of C columns in `parts` parts. `held` is a std::integral_constant: the sixteens
// of each part that a thread holds. `threads` is the number of threads of a block.
template <class Launch>
void launch_for_row(Size C, int parts, Launch&& launch) {
  if (C % (kQuantizedMultiple * parts) != 0 || C > kMostQuantizedColumns) {
    throw InternalError("kernels", "quantize: expected up to " + std::to_string(kMostQuantizedColumns) +
                                       " columns in multiples of 16, found " + std::to_string(C));
  }
  const auto threads = static_cast<int>((C / 16 / parts + kWarp - 1) / kWarp * kWarp);
  using std::integral_constant;
  if (threads <= 256) return launch(integral_constant<int, 1>{}, threads);
  if (threads <= 512) return launch(integral_constant<int, 2>{}, 256);
  if (threads <= 1024) return launch(integral_constant<int, 4>{}, 256);
  if (threads <= 2048) return launch(integral_constant<int, 4>{}, 512);
  launch(integral_constant<int, 8>{}, 1024);
}

template <class Source>
void launch_quantize_rows(CudaStream stream, e4m3* y_RC, float* scales_R, const Source& source, Size R, Size C) {
  launch_for_row(C, Source::kParts, [&](auto held, int threads) {
    if (R == 0) return;
    quantize_rows_kernel<held.value>
        <<<static_cast<unsigned>(R), threads, 0, stream_of(stream)>>>(y_RC, scales_R, source, C);
    check_launch("quantize_rows");
  });
}

template <class Source>
void launch_write_rows(CudaStream stream, bf16* y_RC, const Source& source, Size R, Size C) {
  launch_for_row(C, Source::kParts, [&](auto held, int threads) {
    if (R == 0) return;
    write_rows_kernel<held.value><<<static_cast<unsigned>(R), threads, 0, stream_of(stream)>>>(y_RC, source, C);
    check_launch("write_rows");
  });
}

}  // namespace lt::kernels
