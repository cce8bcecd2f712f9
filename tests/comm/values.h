// Values that differ by rank and index, and the expected results of collectives, computed locally on each rank.
#pragma once

#include <vector>

#include "libtrain/comm/group.h"
#include "libtrain/memory/memory.h"
#include "test_main/tree_sum.h"

namespace lt_test {

// Not exact in bf16, with both signs and several magnitudes, so that summation order and rounding show.
inline double value(int rank, lt::Size i) {
  const double magnitude = static_cast<double>(1 + (i * 37 + rank * 101) % 1009) / 7.0;
  return ((i + rank) % 3 == 0 ? -magnitude : magnitude) * (i % 5 == 0 ? 1e-3 : 1.0);
}

// x rounded to `dtype`.
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

// Element i of the sum over ranks, before it is stored. The values are rounded to the wire's type, also by one rank,
// and added in tree order, in f64 for an f64 wire and in f32 otherwise.
inline double sum(int ranks, lt::Size i, lt::DType dtype, lt::DType wire) {
  std::vector<double> wide;
  std::vector<float> narrow;
  for (int r = 0; r < ranks; ++r) {
    const double x = stored(value(r, i), dtype);
    wide.push_back(stored(x, wire));
    narrow.push_back(static_cast<float>(wide.back()));
  }
  return wire == lt::DType::f64 ? tree_sum(wide.data(), ranks) : tree_sum(narrow.data(), ranks);
}

// The bytes that a reduce-scatter of n elements holds on a meta group while it is under way.
inline lt::Size staged(const lt::Group& group, lt::Size n, lt::DType dtype, lt::DType wire, bool accumulate) {
  const lt::Tensor full = lt::Tensor::empty({n}, dtype, lt::kMeta);
  const lt::Tensor part = full.narrow(0, lt::Group::part_begin(n, group.size(), group.rank()),
                                      lt::Group::part_size(n, group.size(), group.rank()));
  const auto held = [] { return lt::memory_live(lt::kMeta).of(lt::MemoryOwner::communication); };
  const lt::Size before = held();
  const std::vector<lt::Tensor> addends(accumulate ? 1 : 0, part);
  const lt::Work work = group.reduce_scatter("r", part, full, wire, addends);
  return held() - before;
}

// Includes sizes that no rank count divides, fewer elements than ranks (empty parts), none, one, and several messages.
inline const std::vector<lt::Size> kSizes = {0, 1, 2, 3, 5, 12, 13, 1000, 4099};

}  // namespace lt_test
