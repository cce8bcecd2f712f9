// Muon's elementwise kernels on the CPU, each in one pass over memory.
#include "kernels/muon.h"

#include <cmath>

#include "kernels/cpu/rounded_block.h"
#include "kernels/elementwise.h"
#include "kernels/muon_types.h"

namespace lt::kernels {
namespace {

template <class Momentum, class Direction>
void make_direction(const MuonDirection& range, float momentum, const StepNumbers& numbers) {
  Momentum* const momentum_N = static_cast<Momentum*>(range.momentum_N);
  Direction* const direction_N = static_cast<Direction*>(range.direction_N);
  const float* const gradient_N = range.gradient_N;
  const RoundingSegments* const rounding = range.rounding;
  const float scale = numbers.gradient_scale;
  const std::int32_t step = numbers.step;
  const std::uint32_t state = muon_momentum_bits();
  parallel_for(range.N, kGrain, [=](Size begin, Size end) LT_VECTOR_BODY {
    alignas(64) float part[3][kRoundedBlock] = {};
    for (Size i = begin; i < end; i += kRoundedBlock) {
      const Size n = end - i < kRoundedBlock ? end - i : kRoundedBlock;
      float* const b = in_f32(momentum_N + i, part[0], n);
      if (n != kRoundedBlock) move(part[1], gradient_N + i, n);
      const float* const gradient = n == kRoundedBlock ? gradient_N + i : part[1];
      float* const direction = part[2];
#pragma omp simd
      for (Size k = 0; k < kRoundedBlock; ++k) {
        const float g = scale * gradient[k];
        b[k] = momentum * b[k] + g;
        direction[k] = g + momentum * b[k];
      }
      put_back(momentum_N + i, b, n, i, rounding, step, state);
      for (Size k = 0; k < n; ++k) direction_N[i + k] = store<Direction>(direction[k]);
    }
  });
}

template <bool kCopy, class W, class Direction, class Copy>
void update(const MuonUpdate& range, Copy* copy_N, float weight_decay, const StepNumbers& numbers) {
  W* const w_N = static_cast<W*>(range.w_N);
  const Direction* const direction_N = static_cast<const Direction*>(range.direction_N);
  const RoundingSegments* const rounding = range.rounding;
  const float lr = numbers.lr;
  const std::int32_t step = numbers.step;
  const std::uint32_t state = muon_weight_bits();
  parallel_for(range.N, kGrain, [=](Size begin, Size end) LT_VECTOR_BODY {
    alignas(64) float part[2][kRoundedBlock] = {};
    for (Size i = begin; i < end; i += kRoundedBlock) {
      const Size n = end - i < kRoundedBlock ? end - i : kRoundedBlock;
      float* const w = in_f32(w_N + i, part[0], n);
      float* const direction = part[1];
      for (Size k = 0; k < n; ++k) direction[k] = load(direction_N[i + k]);
#pragma omp simd
      for (Size k = 0; k < kRoundedBlock; ++k) w[k] -= lr * (direction[k] + weight_decay * w[k]);
      put_back(w_N + i, w, n, i, rounding, step, state);
      if constexpr (kCopy) {
        for (Size k = 0; k < n; ++k) copy_N[i + k] = store<Copy>(w[k]);
      }
    }
  });
}

}  // namespace

template <>
void muon_direction(CpuStream stream, const MuonDirection& range, float momentum, const StepNumbers* numbers) {
  if (numbers->skip != 0.0f) {
    return fill_zero(stream, range.direction_N, range.N * dtype_bytes(range.direction_dtype));
  }
  dispatch_f32_bf16(range.momentum_dtype, [&]<class Momentum>() {
    dispatch_f32_bf16(range.direction_dtype,
                      [&]<class Direction>() { make_direction<Momentum, Direction>(range, momentum, *numbers); });
  });
}

template <>
void muon_normalise(CpuStream, DType dtype, void* y_N, const void* x_N, Size N, const double* squares) {
  const float factor = 1.0f / (static_cast<float>(std::sqrt(*squares)) + 1e-7f);
  dispatch_f32_bf16(dtype, [&]<class T>() {
    const T* const x = static_cast<const T*>(x_N);
    map(static_cast<T*>(y_N), N, false, [=](Size i) LT_VECTOR_BODY { return factor * load(x[i]); });
  });
}

template <>
void add_to_diagonal(CpuStream, DType dtype, void* x_BNN, Size B, Size N, float value) {
  dispatch_f32_bf16(dtype, [&]<class T>() {
    for (Size i = 0; i < B * N; ++i) {
      T& x = static_cast<T*>(x_BNN)[i / N * N * N + i % N * (N + 1)];
      x = store<T>(load(x) + value);
    }
  });
}

template <>
void muon_update(CpuStream, const MuonUpdate& range, float weight_decay, const StepNumbers* numbers) {
  if (numbers->skip != 0.0f) return;
  dispatch_muon(range, [&]<class W, class Direction, class Copy>(Copy* copy) {
    dispatch_flag(copy != nullptr, [&](auto flag) { update<flag, W, Direction>(range, copy, weight_decay, *numbers); });
  });
}

}  // namespace lt::kernels
