// Compares the tape's gradients with central differences, in f64.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "libtrain/kernels/random.h"
#include "libtrain/ops/ops.h"
#include "libtrain/tensor/autograd.h"
#include "test_main/catch.h"
#include "test_main/worst_of.h"

namespace lt_test {

using lt::Shape;
using lt::Size;
using lt::Tensor;

// In f64, the difference's truncation error (h^2) and rounding error (eps / h) are both near 1e-10 of the gradient's
// scale.
inline constexpr double kGradientTolerance = 1e-6;
inline constexpr double kDifference = 1e-5;

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

using Operation = std::function<Tensor(const std::vector<Tensor>&)>;

// Checks d(sum(op(inputs) * r)) / d(inputs), with a fixed random r, for every element of every input.
inline void check_gradient(const Operation& op, std::vector<Tensor> inputs) {
  const auto loss = [&] {
    const Tensor y = op(inputs);
    return lt::ops::sum(lt::ops::mul(y, normal(y.shape(), 99)));
  };
  for (Tensor& input : inputs) {
    input = Tensor::from(input.to_vector<double>(), input.shape());  // a tensor without earlier gradients
    input.set_requires_grad();
  }
  lt::Tape tape;
  {
    const lt::TapeScope recording(&tape);
    lt::backward(tape, loss());
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& input = inputs[k];
    REQUIRE(input.gradient().defined());
    const std::vector<double> gradient = input.gradient().to_vector<double>();
    double worst = 0, scale = 1e-3;
    auto* values = input.data<double>();
    for (Size i = 0; i < input.elements(); ++i) {
      const double kept = values[i];
      values[i] = kept + kDifference;
      const double above = loss().item();
      values[i] = kept - kDifference;
      const double below = loss().item();
      values[i] = kept;
      const double expected = (above - below) / (2 * kDifference);
      worst = worst_of(worst, std::abs(expected - gradient[static_cast<std::size_t>(i)]));
      scale = std::max(scale, std::abs(expected));
    }
    INFO("input " << k << " " << lt::to_string(input.shape()));
    CHECK(worst / scale < kGradientTolerance);
  }
}

inline void check_equal(const Tensor& a, const Tensor& b, double tolerance) {
  REQUIRE(a.shape() == b.shape());
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) worst = worst_of(worst, std::abs(x[i] - y[i]));
  CHECK(worst <= tolerance);
}

}  // namespace lt_test
