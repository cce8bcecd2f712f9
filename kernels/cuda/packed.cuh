// 16 bytes of a row, kept in four registers as they are in memory and converted at each use. (With a Pack the compiler
// keeps each element of two bytes in its own register.)
#pragma once

#include "kernels/cuda/common.cuh"

namespace lt::kernels {

template <class T>
struct alignas(16) Packed {
  static constexpr int kCount = kPack<T>;
  std::uint32_t words[4];

  __device__ float operator[](int k) const {
    if constexpr (std::is_same_v<T, bf16>) {
      const std::uint32_t word = words[k / 2];
      return __uint_as_float(k % 2 == 0 ? word << 16 : word & 0xffff0000u);
    } else if constexpr (std::is_same_v<T, f16>) {
      const __half_raw raw{static_cast<unsigned short>(words[k / 2] >> (16 * (k % 2)))};
      return __half2float(raw);
    } else {
      return __uint_as_float(words[k]);
    }
  }

  // Drops converted elements that the compiler still holds in registers: the next use converts again.
  __device__ void stay_packed() { asm volatile("" : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3])); }

  // Sets element k to value(k), rounded to nearest even.
  template <class F>
  __device__ void fill(F&& value) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (std::is_same_v<T, bf16>) {
        const __nv_bfloat162_raw pair = __floats2bfloat162_rn(value(2 * i), value(2 * i + 1));
        words[i] = pair.x | static_cast<std::uint32_t>(pair.y) << 16;
      } else if constexpr (std::is_same_v<T, f16>) {
        const __half2_raw pair = __floats2half2_rn(value(2 * i), value(2 * i + 1));
        words[i] = pair.x | static_cast<std::uint32_t>(pair.y) << 16;
      } else {
        words[i] = __float_as_uint(value(i));
      }
    }
  }
};

}  // namespace lt::kernels
