// Values that differ by rank and index, and what the collectives must make of them, computed alone on each rank.
#pragma once

#include <vector>

#include "libtrain/comm/group.h"

namespace lt_test {

// Not exactly a bf16, of both signs and several magnitudes, so that orders and roundings show.
inline double value(int rank, lt::Size i) {
  const double magnitude = static_cast<double>(1 + (i * 37 + rank * 101) % 1009) / 7.0;
  return ((i + rank) % 3 == 0 ? -magnitude : magnitude) * (i % 5 == 0 ? 1e-3 : 1.0);
}

// x as it is stored in `dtype`.
inline double stored(double x, lt::DType dtype) {
  if (dtype == lt::DType::f64) return x;
  const float f = static_cast<float>(x);
  return dtype == lt::DType::f32 ? f : static_cast<float>(lt::bf16(f));
}

inline lt::Tensor tensor_of(const std::vector<double>& values, lt::DType dtype) {
  const lt::Tensor tensor = lt::Tensor::empty({static_cast<lt::Size>(values.size())}, dtype);
  lt::copy(tensor, lt::Tensor::from(values, {static_cast<lt::Size>(values.size())}));
  return tensor;
}

// Rank's contribution of n elements.
inline lt::Tensor contribution(int rank, lt::Size n, lt::DType dtype) {
  std::vector<double> values;
  for (lt::Size i = 0; i < n; ++i) values.push_back(value(rank, i));
  return tensor_of(values, dtype);
}

// Element i of the sum over ranks, before it is stored: values rounded to the wire's type (one rank: nothing travels),
// added in rank order in f32, or f64 for an f64 wire.
inline double sum(int ranks, lt::Size i, lt::DType dtype, lt::DType wire) {
  double wide = 0;
  float narrow = 0;
  for (int r = 0; r < ranks; ++r) {
    const double x = stored(value(r, i), dtype), sent = ranks == 1 ? x : stored(x, wire);
    wide += sent;
    narrow += static_cast<float>(sent);
  }
  return wire == lt::DType::f64 ? wide : ranks == 1 ? wide : narrow;
}

// Not a divisor's multiple, fewer than ranks (empty parts), none, one, and enough for several messages.
inline const std::vector<lt::Size> kSizes = {0, 1, 2, 3, 5, 12, 13, 1000, 4099};

}  // namespace lt_test
