// y_i (+)= f(x0_i, x1_i, ...) over flat arrays, in packs of 16 bytes of the narrowest array.
#pragma once

#include <algorithm>

#include "kernels/cuda/common.cuh"

namespace lt::kernels {

template <int kCount, bool kAdd, class F, class Y, class... X>
__global__ void map_kernel(Y* y_N, Size N, F f, const X*... x_N) {
  const Size packs = N / kCount;
  for (Size p = thread_index(); p < packs; p += thread_count()) {
    auto& y = reinterpret_cast<Pack<Y, kCount>*>(y_N)[p];
    Pack<Y, kCount> result;
    if constexpr (kAdd) result = y;
    [&](const auto... x) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const auto value = static_cast<Arithmetic<Y>>(f(load(x.values[i])...));
        result.values[i] = store<Y>(kAdd ? load(result.values[i]) + value : value);
      }
    }(reinterpret_cast<const Pack<X, kCount>*>(x_N)[p]...);
    y = result;
  }
  const Size rest = packs * kCount + thread_index();
  if (kCount > 1 && rest < N) {
    const auto value = static_cast<Arithmetic<Y>>(f(load(x_N[rest])...));
    y_N[rest] = store<Y>(kAdd ? load(y_N[rest]) + value : value);
  }
}

// `f` is a function object over the arithmetic types of the inputs. y may be one of the inputs. (nvcc allows no
// __device__ lambdas inside generic lambdas, which give kernels their element type.)
template <class Y, class F, class... X>
void map(CudaStream stream, Y* y_N, Size N, bool accumulate, F f, const X*... x_N) {
  if (N == 0) return;
  constexpr int kCount = std::max({kPack<Y>, kPack<X>...});
  dispatch_flag(accumulate, [&](auto add) {
    if (aligned(y_N, x_N...)) {
      map_kernel<kCount, add.value>
          <<<blocks_for(stream, N / kCount), kThreads, 0, stream_of(stream)>>>(y_N, N, f, x_N...);
    } else {
      map_kernel<1, add.value><<<blocks_for(stream, N), kThreads, 0, stream_of(stream)>>>(y_N, N, f, x_N...);
    }
  });
  check_launch("map");
}

}  // namespace lt::kernels
