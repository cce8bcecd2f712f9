// Each value is a function of its index, so threads share the work as they like.
#include "kernels/random.h"

#include <algorithm>

#include "libtrain/random.h"

namespace lt::kernels {

template <>
void fill_normal(CpuStream, float* values_N, std::uint64_t key, std::uint64_t first, Size N, float mean,
                 float deviation) {
  constexpr Size kBlock = Size{1} << 16;
#pragma omp parallel for schedule(static)
  for (Size begin = 0; begin < N; begin += kBlock) {
    lt::fill_normal(values_N + begin, key, first + static_cast<std::uint64_t>(begin), std::min(kBlock, N - begin), mean,
                    deviation);
  }
}

}  // namespace lt::kernels
