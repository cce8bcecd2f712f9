// Computes the angles of rotary positions for generated tokens, one at a time and in double.
#pragma once

#include "kernels/cuda/common.cuh"
#include "libtrain/kernels/rope_scaling.h"

namespace lt::kernels {

struct Rotation {
  double base;  // 0: no rotation
  RopeScaling scaling;

  // Computes the cosine and sine of the angle of pair d of a head with D channels.
  template <class A>
  __device__ void angle(Size position, Size d, Size D, A& cosine, A& sine) const {
    const double rate = scaling.scaled(pow(base, -2.0 * static_cast<double>(d) / static_cast<double>(D)));
    double c, s;
    sincos(static_cast<double>(position) * rate, &s, &c);
    cosine = static_cast<A>(c), sine = static_cast<A>(s);
  }
};

}  // namespace lt::kernels
