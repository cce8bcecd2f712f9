// Inputs for checks of gradients, and comparisons of results.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "libtrain/kernels/random.h"
#include "libtrain/ops/check_gradient.h"
#include "libtrain/ops/ops.h"
#include "libtrain/tensor/autograd.h"
#include "test_main/catch.h"
#include "test_main/worst_of.h"

namespace lt_test {

using lt::check_gradient;
using lt::Shape;
using lt::Size;
using lt::Tensor;

inline std::vector<double> normal_values(Size count, std::uint64_t key) {
  std::vector<float> values(static_cast<std::size_t>(count));
  lt::fill_normal(values.data(), key, 0, count, 0.0f, 1.0f);
  return {values.begin(), values.end()};
}

inline Tensor normal(const Shape& shape, std::uint64_t key) {
  return Tensor::from(normal_values(shape.elements(), key), shape);
}

inline Tensor token_ids(const Shape& shape, Size vocab, std::uint64_t key) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(lt::philox_word(key, i) % static_cast<std::uint64_t>(vocab));
  }
  return Tensor::from(ids, shape);
}

inline void check_equal(const Tensor& a, const Tensor& b, double tolerance) {
  REQUIRE(a.shape() == b.shape());
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) worst = worst_of(worst, std::abs(x[i] - y[i]));
  CHECK(worst <= tolerance);
}

}  // namespace lt_test
