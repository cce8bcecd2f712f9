// Normal random numbers on the CPU. Each value depends only on its index, so threads may split the work in any way.
#include "kernels/random.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/element_types.h"
#include "libtrain/kernels/random.h"

namespace lt::kernels {

template <>
void fill_normal(CpuStream, DType dtype, void* values_N, std::uint64_t key, std::uint64_t first, Size N, float mean,
                 float deviation) {
  constexpr Size kBlock = Size{1} << 16;
  dispatch_float(dtype, [&]<class T>() {
    T* const values = static_cast<T*>(values_N);
#pragma omp parallel for schedule(static)
    for (Size begin = 0; begin < N; begin += kBlock) {
      const Size count = std::min(kBlock, N - begin);
      const std::uint64_t element = first + static_cast<std::uint64_t>(begin);
      if constexpr (std::is_same_v<T, float>) {
        lt::fill_normal(values + begin, key, element, count, mean, deviation);
      } else {
        std::vector<float> block(static_cast<std::size_t>(count));
        lt::fill_normal(block.data(), key, element, count, mean, deviation);
        for (Size i = 0; i < count; ++i) values[begin + i] = static_cast<T>(block[static_cast<std::size_t>(i)]);
      }
    }
  });
}

}  // namespace lt::kernels
