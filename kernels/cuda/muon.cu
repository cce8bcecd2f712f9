// Muon's elementwise kernels on the GPU, each in one pass over memory.
#include "kernels/muon.h"

#include "kernels/cuda/map.cuh"
#include "kernels/cuda/rounded_pack.cuh"
#include "kernels/muon_types.h"

namespace lt::kernels {
namespace {

template <int kCount, class Momentum, class Direction>
__global__ void muon_direction_kernel(Momentum* momentum_N, const float* gradient_N, Direction* direction_N, Size N,
                                      float momentum, const StepNumbers* numbers, std::uint32_t state,
                                      const __grid_constant__ RoundingSegments segments) {
  const StepNumbers s = *numbers;
  for (Size p = thread_index(); p < N / kCount; p += thread_count()) {
    Pack<Direction, kCount> direction;
    if (s.skip != 0.0f) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) direction.values[k] = store<Direction>(0.0f);
    } else {
      float b[kCount], gradient[kCount];
      get(b, momentum_N, p), get(gradient, gradient_N, p);
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        const float g = s.gradient_scale * gradient[k];
        b[k] = momentum * b[k] + g;
        direction.values[k] = store<Direction>(g + momentum * b[k]);
      }
      put(momentum_N, p, b, segments, s.step, state);
    }
    reinterpret_cast<Pack<Direction, kCount>*>(direction_N)[p] = direction;
  }
}

template <int kCount, class W, class Direction, class Copy>
__global__ void muon_update_kernel(W* w_N, const Direction* direction_N, Copy* copy_N, Size N, float weight_decay,
                                   const StepNumbers* numbers, std::uint32_t state,
                                   const __grid_constant__ RoundingSegments segments) {
  const StepNumbers s = *numbers;
  if (s.skip != 0.0f) return;
  for (Size p = thread_index(); p < N / kCount; p += thread_count()) {
    float w[kCount], direction[kCount];
    get(w, w_N, p), get(direction, direction_N, p);
    Pack<Copy, kCount> copy;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      w[k] -= s.lr * (direction[k] + weight_decay * w[k]);
      copy.values[k] = store<Copy>(w[k]);
    }
    put(w_N, p, w, segments, s.step, state);
    if (copy_N) reinterpret_cast<Pack<Copy, kCount>*>(copy_N)[p] = copy;
  }
}

template <class T>
__global__ void add_to_diagonal_kernel(T* x_BNN, Size B, Size N, float value) {
  for (Size i = thread_index(); i < B * N; i += thread_count()) {
    T& x = x_BNN[i / N * N * N + i % N * (N + 1)];
    x = store<T>(load(x) + value);
  }
}

struct Normalised {
  const double* squares;
  __device__ float operator()(float x) const { return x / (static_cast<float>(sqrt(*squares)) + 1e-7f); }
};

// Calls launch(count) with the elements per thread at once: eight if all arrays allow it, to share random bits,
// otherwise one. Every element goes through the same instructions, so a range may be split anywhere.
template <class Launch>
void in_packs(Size N, bool aligned_arrays, const RoundingSegments* rounding, Launch&& launch) {
  constexpr int kWhole = static_cast<int>(kRoundedTogether);
  const bool whole = N % kWhole == 0 && aligned_arrays && (rounding == nullptr || rounding->are_aligned());
  dispatch_flag(whole, [&](auto flag) { launch(std::integral_constant < int, flag.value ? kWhole : 1 > ()); });
}

RoundingSegments by_value(const RoundingSegments* rounding) {
  return rounding != nullptr ? *rounding : RoundingSegments{};
}

}  // namespace

template <>
void muon_direction(CudaStream stream, const MuonDirection& r, float momentum, const StepNumbers* numbers) {
  if (r.N == 0) return;
  const RoundingSegments segments = by_value(r.rounding);
  const bool packs = aligned(r.momentum_N, r.gradient_N, r.direction_N);
  dispatch_f32_bf16(r.momentum_dtype, [&]<class Momentum>() {
    dispatch_f32_bf16(r.direction_dtype, [&]<class Direction>() {
      in_packs(r.N, packs, r.rounding, [&](auto count) {
        constexpr int kCount = count.value;
        muon_direction_kernel<kCount><<<blocks_for(stream, r.N / kCount), kThreads, 0, stream_of(stream)>>>(
            static_cast<Momentum*>(r.momentum_N), r.gradient_N, static_cast<Direction*>(r.direction_N), r.N, momentum,
            numbers, muon_momentum_bits(), segments);
      });
    });
  });
  check_launch("muon_direction");
}

template <>
void muon_normalise(CudaStream stream, DType dtype, void* y_N, const void* x_N, Size N, const double* squares) {
  dispatch_f32_bf16(dtype, [&]<class T>() {
    map(stream, static_cast<T*>(y_N), N, false, Normalised{squares}, static_cast<const T*>(x_N));
  });
}

template <>
void add_to_diagonal(CudaStream stream, DType dtype, void* x_BNN, Size B, Size N, float value) {
  if (B * N == 0) return;
  dispatch_f32_bf16(dtype, [&]<class T>() {
    add_to_diagonal_kernel<<<blocks_for(stream, B * N), kThreads, 0, stream_of(stream)>>>(static_cast<T*>(x_BNN), B, N,
                                                                                          value);
  });
  check_launch("add_to_diagonal");
}

template <>
void muon_update(CudaStream stream, const MuonUpdate& r, float weight_decay, const StepNumbers* numbers) {
  if (r.N == 0) return;
  const RoundingSegments segments = by_value(r.rounding);
  const bool packs = aligned(r.w_N, r.direction_N, r.copy_N);
  dispatch_muon(r, [&]<class W, class Direction, class Copy>(Copy* copy) {
    in_packs(r.N, packs, r.rounding, [&](auto count) {
      constexpr int kCount = count.value;
      muon_update_kernel<kCount><<<blocks_for(stream, r.N / kCount), kThreads, 0, stream_of(stream)>>>(
          static_cast<W*>(r.w_N), static_cast<const Direction*>(r.direction_N), copy, r.N, weight_decay, numbers,
          muon_weight_bits(), segments);
    });
  });
  check_launch("muon_update");
}

}  // namespace lt::kernels
