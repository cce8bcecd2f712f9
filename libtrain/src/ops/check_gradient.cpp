// Central differences of an operation, and their comparison with its gradients.
#include "libtrain/ops/check_gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "libtrain/ops/ops.h"
#include "libtrain/tensor/autograd.h"

namespace lt {
namespace {

// The truncation error of a difference (step^2) and its rounding error (eps / step) are both near 1e-10 of the
// gradient's scale.
constexpr double kStep = 1e-5;

Tensor random_factors(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  fill_normal(values.data(), 99, 0, shape.elements(), 0.0f, 1.0f);
  return Tensor::from(std::vector<double>(values.begin(), values.end()), shape);
}

}  // namespace

double check_gradient(const std::function<Tensor(const std::vector<Tensor>& inputs)>& operation,
                      const std::vector<Tensor>& inputs, double tolerance) {
  std::vector<Tensor> in_f64;
  for (const Tensor& input : inputs) {
    in_f64.push_back(input);
    if (!is_floating(input.dtype())) continue;
    in_f64.back() = Tensor::from(input.to_vector<double>(), input.shape());  // without earlier gradients
    in_f64.back().set_requires_grad();
  }
  const auto loss = [&] {
    const Tensor y = operation(in_f64);
    return ops::sum(ops::mul(y, random_factors(y.shape())));
  };
  Tape tape;
  {
    const TapeScope recording(&tape);
    backward(tape, loss());
  }
  const TapeScope no_recording(nullptr);
  double largest = 0;
  for (std::size_t k = 0; k < in_f64.size(); ++k) {
    const Tensor& input = in_f64[k];
    if (!is_floating(input.dtype())) continue;
    if (!input.gradient().defined()) {
      throw UsageError("ops", fmt::format("check_gradient: input {}: expected a gradient, found none", k));
    }
    const std::vector<double> found = input.gradient().to_vector<double>();
    std::vector<double> expected(found.size());
    double scale = 1e-3;
    for (std::size_t i = 0; i < found.size(); ++i) {
      double& value = input.data<double>()[i];
      const double kept = value;
      value = kept + kStep;
      const double above = loss().item();
      value = kept - kStep;
      const double below = loss().item();
      value = kept;
      expected[i] = (above - below) / (2 * kStep);
      scale = std::max(scale, std::abs(expected[i]));
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double error = std::abs(expected[i] - found[i]) / scale;
      if (!(error <= tolerance)) {  // also NaN
        throw UsageError("ops", fmt::format("check_gradient: input {}, element {}: expected a derivative of {:.9g}, "
                                            "got {:.9g}",
                                            k, i, expected[i], found[i]));
      }
      largest = std::max(largest, error);
    }
  }
  return largest;
}

}  // namespace lt
