// Rotary position embedding on packed rows (Su et al. 2021). The two halves of a head form the pairs (x_d, x_{d+D/2}),
// the convention of the published Llama weights in Hugging Face format.
#pragma once

#include <cstdint>

#include "kernels/common.h"
#include "libtrain/kernels/rope_scaling.h"

namespace lt::kernels {

// Row t of each sequence is at position first + t: with a = position * scaling.scaled(base^(-2d/D)),
// y_d = x_d cos a - x_{d+D/2} sin a,  y_{d+D/2} = x_{d+D/2} cos a + x_d sin a.
// Rotates the first `heads` heads of each row of `row` elements and copies the rest. `inverse` rotates back, which is
// the gradient. y may be x. D is even. starts_BT gives, for each token, the position in its sequence where the token's
// document begins. With starts_BT, positions count from there: t - starts_BT[b, t], and `first` is 0.
struct Rope {
  DType dtype;
  Size B, T, row, heads, D;
  void* y_BTrow;
  const void* x_BTrow;
  double base;
  Size first = 0;
  bool inverse = false, accumulate = false;
  RopeScaling scaling{};
  const std::int32_t* starts_BT = nullptr;
};
template <class S>
void rope(S stream, const Rope& rope);

}  // namespace lt::kernels
