// Several blocks that share a row: a cluster (compute capability 9.0 and above), whose blocks read each other's shared
// memory.
#pragma once

#include <cooperative_groups.h>

#include "kernels/cuda/common.cuh"
#include "kernels/cuda/early_launch.cuh"

namespace lt::kernels {

// synchronize(), over_parts() and before_part() must be called by all threads of all kBlocks blocks, with values that
// are the same in all threads of a block.
template <int kBlocks>
struct RowParts {
  static constexpr int kCount = kBlocks;
  __device__ static void synchronize() {
    if constexpr (kBlocks == 1) {
      __syncthreads();
    } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
      cooperative_groups::this_cluster().sync();
#endif
    }
  }
  __device__ static int part() { return static_cast<int>(blockIdx.x) % kBlocks; }

  // Returns the address of part p's copy of `shared`, a variable in shared memory that every block of the row has.
  template <class V>
  __device__ static V* of(V* shared, int p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if constexpr (kBlocks > 1) return cooperative_groups::this_cluster().map_shared_rank(shared, p);
#endif
    return shared;
  }

  // Combines the values of all parts with f, in order.
  template <class V, class F>
  __device__ static V over_parts(V own, const F& f) {
    if constexpr (kBlocks == 1) return own;
    __shared__ V value;
    if (threadIdx.x == 0) value = own;
    synchronize();
    V all = *of(&value, 0);
#pragma unroll
    for (int p = 1; p < kBlocks; ++p) all = f(all, *of(&value, p));
    synchronize();  // the next call may write now
    return all;
  }

  // Returns the sum of the values of the parts before this one.
  template <class V>
  __device__ static V before_part(V own) {
    if constexpr (kBlocks == 1) return V{};
    __shared__ V value;
    if (threadIdx.x == 0) value = own;
    synchronize();
    V sum{};
#pragma unroll
    for (int p = 0; p < kBlocks; ++p) sum += p < part() ? *of(&value, p) : V{};
    synchronize();
    return sum;
  }
};

// Launches kBlocks blocks for each of `rows` rows, as a cluster, which needs runs_new_code(). The kernel starts early
// (early_launch.cuh).
template <int kBlocks, class... Parameters, class... Arguments>
void launch_in_parts(CudaStream stream, void (*kernel)(Parameters...), Size rows, int threads, Arguments... arguments) {
  cudaLaunchAttribute attributes[2]{early_attribute()};
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {kBlocks, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(rows * kBlocks)), config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream_of(stream);
  config.attrs = attributes, config.numAttrs = kBlocks > 1 ? 2 : runs_new_code(stream, kernel) ? 1 : 0;
  LT_CUDA(cudaLaunchKernelEx(&config, kernel, arguments...));
}

}  // namespace lt::kernels
