// Muon's elementwise kernels (Jordan 2024, "Muon: An optimizer for hidden layers in neural networks"). Its work on
// whole matrices consists of matmuls and a norm: see optim/newton_schulz.h.
#pragma once

#include "kernels/common.h"
#include "libtrain/kernels/step_numbers.h"
#include "libtrain/kernels/stochastic_rounding.h"

namespace lt::kernels {

// Arrays of N elements.
struct MuonDirection {
  void* momentum_N;
  DType momentum_dtype;  // f32, or bf16 that is rounded stochastically
  const float* gradient_N;
  void* direction_N;
  DType direction_dtype;  // f32 or bf16
  Size N;
  const RoundingSegments* rounding = nullptr;  // in host memory; required if the momentum is bf16
};

// For i in [0, N), with g = numbers->gradient_scale * gradient_i, in f32:
//   momentum_i = momentum * momentum_i + g,  direction_i = g + momentum * momentum_i.
// A skipped step leaves momentum_N unchanged and sets every direction to 0. A range may be split anywhere.
template <class S>
void muon_direction(S stream, const MuonDirection& range, float momentum, const StepNumbers* numbers);

// y_N = x_N / (sqrt(squares[0]) + 1e-7), f32 or bf16. y may be x.
template <class S>
void muon_normalise(S stream, DType dtype, void* y_N, const void* x_N, Size N, const double* squares);

// Adds `value` to each diagonal element of x_BNN, B matrices of N rows, in f32; x is f32 or bf16.
template <class S>
void add_to_diagonal(S stream, DType dtype, void* x_BNN, Size B, Size N, float value);

struct MuonUpdate {
  void* w_N;
  DType w_dtype;  // f32, or bf16 that is rounded stochastically
  const void* direction_N;
  DType direction_dtype;  // f32 or bf16
  void* copy_N;           // receives w rounded to `copy_dtype`, bf16 or f16; null: no copy, as for bf16 w
  DType copy_dtype;
  Size N;
  const RoundingSegments* rounding = nullptr;  // in host memory; required if w is bf16
};

// For i in [0, N): w -= lr * (direction_i + weight_decay * w) in f32. A range may be split anywhere.
template <class S>
void muon_update(S stream, const MuonUpdate& range, float weight_decay, const StepNumbers* numbers);

}  // namespace lt::kernels
