// Normal random numbers on the GPU. A thread takes a counter; its four words give four elements (Box and Muller 1958).
#include "kernels/random.h"

#include "kernels/cuda/common.cuh"
#include "libtrain/kernels/random.h"

namespace lt::kernels {
namespace {

template <class T>
__global__ void fill_normal_kernel(T* values_N, std::uint64_t key, std::uint64_t first, Size N, float mean,
                                   float deviation) {
  const std::uint64_t end = first + static_cast<std::uint64_t>(N);
  for (std::uint64_t counter = first / 4 + static_cast<std::uint64_t>(thread_index()); 4 * counter < end;
       counter += static_cast<std::uint64_t>(thread_count())) {
    const auto words = philox(key, counter);
#pragma unroll
    for (int lane = 0; lane < 4; lane += 2) {
      const double u1 = (static_cast<double>(words[lane]) + 1.0) * 0x1p-32,
                   u2 = static_cast<double>(words[lane + 1]) * 0x1p-32;
      const double radius = sqrt(-2.0 * log(u1));
      double normal[2];
      sincospi(2.0 * u2, &normal[1], &normal[0]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const std::uint64_t index = 4 * counter + static_cast<std::uint64_t>(lane + j);
        if (index < first || index >= end) continue;
        values_N[index - first] = store<T>(static_cast<float>(mean + deviation * (radius * normal[j])));
      }
    }
  }
}

}  // namespace

template <>
void fill_normal(CudaStream stream, DType dtype, void* values_N, std::uint64_t key, std::uint64_t first, Size N,
                 float mean, float deviation) {
  if (N == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    fill_normal_kernel<<<blocks_for(stream, N / 4 + 2), kThreads, 0, stream_of(stream)>>>(
        static_cast<T*>(values_N), key, first, N, mean, deviation);
  });
  check_launch("fill_normal");
}

}  // namespace lt::kernels
