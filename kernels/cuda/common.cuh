// Shared by the CUDA kernels: element types and their arithmetic, 16-byte packs, sums over a warp and a block, and
// launch sizes. Do not use fmt here: its compile-time checks fail under nvcc.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "device/cuda.h"
#include "device/cuda_error.h"
#include "kernels/common.h"
#include "kernels/element_types.h"
#include "libtrain/error.h"

namespace lt::kernels {

template <class T>
__device__ inline Arithmetic<T> load(T x) {
  if constexpr (std::is_same_v<T, f16>) {
    return __half2float(__half(__half_raw{x.bits}));
  } else {
    return static_cast<Arithmetic<T>>(x);
  }
}
// Rounds to nearest even.
template <class T>
__device__ inline T store(Arithmetic<T> x) {
  if constexpr (std::is_same_v<T, bf16>) {
    const __nv_bfloat16_raw raw = __float2bfloat16_rn(x);
    bf16 y;
    y.bits = raw.x;
    return y;
  } else if constexpr (std::is_same_v<T, f16>) {
    const __half_raw raw = __float2half_rn(x);
    f16 y;
    y.bits = raw.x;
    return y;
  } else {
    return static_cast<T>(x);
  }
}

inline cudaStream_t stream_of(CudaStream stream) { return static_cast<cudaStream_t>(stream.handle); }

// kCount elements that are loaded and stored together, up to 16 bytes at a time.
template <class T, int kCount>
struct alignas(kCount * sizeof(T) < 16 ? kCount * sizeof(T) : 16) Pack {
  T values[kCount];
};
template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

template <class... Pointers>
bool aligned(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

inline constexpr int kThreads = 256;
inline constexpr int kWarp = 32;

inline int multiprocessors(CudaStream stream) {
  static thread_local int device = -1, count = 0;
  if (device != stream.device) {
    LT_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, stream.device));
    device = stream.device;
  }
  return count;
}

// Blocks for `items` threads, at most 16 per multiprocessor. The threads must loop if there are more items.
inline unsigned blocks_for(CudaStream stream, Size items, int threads = kThreads) {
  const Size most = Size{16} * multiprocessors(stream), wanted = (items + threads - 1) / threads;
  return static_cast<unsigned>(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

// Call after each launch. Reports bad arguments; errors of the kernel itself appear at the next synchronisation.
inline void check_launch(const char* kernel) { device::cuda::check(cudaGetLastError(), kernel); }

// Launches `blocks` blocks with `bytes` of dynamic shared memory, which may exceed 48 KiB.
template <class... Parameters, class... Arguments>
void launch(CudaStream stream, void (*kernel)(Parameters...), Size blocks, int threads, Size bytes,
            Arguments... arguments) {
  if (blocks == 0) return;
  LT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  kernel<<<static_cast<unsigned>(blocks), threads, static_cast<std::size_t>(bytes), stream_of(stream)>>>(arguments...);
  LT_CUDA(cudaGetLastError());
}

__device__ inline Size thread_index() { return static_cast<Size>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline Size thread_count() { return static_cast<Size>(gridDim.x) * blockDim.x; }

// Reduce over kLanes neighbouring lanes, a power of two; each lane gets the result.
template <int kLanes = kWarp, class A>
__device__ inline A warp_sum(A x) {
  for (int offset = kLanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}
template <int kLanes = kWarp, class A>
__device__ inline A warp_max(A x) {
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    const A other = __shfl_xor_sync(0xffffffffu, x, offset);
    x = other > x ? other : x;
  }
  return x;
}

// Sums in a fixed order; every thread gets the result. The block must have a multiple of 32 threads.
template <class A>
__device__ inline A block_sum(A x) {
  __shared__ A parts[kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  x = warp_sum(x);
  __syncthreads();  // an earlier call may still read `parts`
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  return warp_sum(lane < static_cast<int>(blockDim.x) / kWarp ? parts[lane] : A(0));
}
template <class A>
__device__ inline A block_max(A x, A least) {
  __shared__ A parts[kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  x = warp_max(x);
  __syncthreads();
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  return warp_max(lane < static_cast<int>(blockDim.x) / kWarp ? parts[lane] : least);
}

}  // namespace lt::kernels
