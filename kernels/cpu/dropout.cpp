// Dropout on the CPU.
#include "kernels/cpu/map.h"
#include "kernels/elementwise.h"
#include "libtrain/kernels/random.h"

namespace lt::kernels {

template <>
void dropout(CpuStream, const Dropout& k) {
  const void* const x_N = k.x_N;
  void* const y_N = k.y_N;
  const float p = k.p;
  const std::uint64_t key = k.key, first = k.first.number();
  dispatch_float(k.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    const A factor = A(1) / (A(1) - static_cast<A>(p));
    dispatch_flag(k.accumulate, [&](auto flag) {
      parallel_for(k.N, kGrain / 4, [=](Size begin, Size end) LT_VECTOR_BODY {
        const T* const x = static_cast<const T*>(x_N);
        T* const y = static_cast<T*>(y_N);
        const std::uint64_t stream_key = key;
        const std::uint32_t least = least_word(p);
        const A kept_factor = factor;
        constexpr Size kCounters = 64, kWords = 4 * kCounters;  // one counter gives the words of four elements
        alignas(64) std::uint32_t words[kWords];
        for (Size i = begin; i < end;) {
          const std::uint64_t index = first + static_cast<std::uint64_t>(i), counter = index / 4;
          const Size skip = static_cast<Size>(index % 4);
          const Size n = kWords - skip < end - i ? kWords - skip : end - i;
          for (Size k = 0; k < kCounters; ++k) {
            const auto four = philox(stream_key, counter + static_cast<std::uint64_t>(k));
            words[4 * k] = four[0], words[4 * k + 1] = four[1], words[4 * k + 2] = four[2], words[4 * k + 3] = four[3];
          }
#pragma omp simd
          for (Size k = 0; k < n; ++k) {
            const A value = load(x[i + k]) * kept_factor;
            const A kept = words[skip + k] >= least ? value : A(0);
            y[i + k] = store<T>(flag ? load(y[i + k]) + kept : kept);
          }
          i += n;
        }
      });
    });
  });
}

}  // namespace lt::kernels
