// Checks where f16 and bf16 values are rounded: gradients once, sums only at their end.
#include "ops/gradient_check.h"

using namespace lt;
using namespace lt_test;

TEST_CASE("div: the divisor's gradient in two bytes is rounded once, and overflows only where it must", "[ops]") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto in_dtype = [&](const std::vector<double>& values) {
      return ops::cast(Tensor::from(values, {static_cast<Size>(values.size())}), dtype);
    };
    // The first quotient a / b is above f16's range; dy / b and the gradient are within it.
    const Tensor dy = in_dtype({1e-4, 0.7, -1.3, 3, 0.81, -0.37}), a = in_dtype({100, 1.1, -0.37, 5.3, 0.59, 2.3});
    Tensor b = in_dtype({1e-3, 0.3, -0.9, 1.7, -0.23, 0.71});
    b.set_requires_grad();
    Tape tape;
    const TapeScope recording(&tape);
    // The gradient of an operation's result has its dtype, that of a leaf f32.
    backward(tape, ops::sum(ops::mul(ops::div(a, ops::scale(b, 1)), dy)));
    const auto values_of = [](const Tensor& t) { return ops::cast(t, DType::f64).to_vector<double>(); };
    const std::vector<double> d = values_of(dy), p = values_of(a), q = values_of(b), db = values_of(b.gradient());
    CAPTURE(dtype_name(dtype));
    for (std::size_t i = 0; i < d.size(); ++i) {
      const double exact = -d[i] * p[i] / (q[i] * q[i]);
      CHECK(db[i] == values_of(in_dtype({exact}))[0]);
    }
  }
}

TEST_CASE("sums and gradients of broadcasts run in f32 whatever the dtype", "[ops]") {
  constexpr Size kMany = 100'000;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    INFO(dtype_name(dtype));
    const Tensor ones = Tensor::empty({kMany}, dtype);
    fill(ones, 1);
    CHECK(ops::mean(ones).item() == 1);
    CHECK(ops::mean(ops::reshape(ones, {2, kMany / 2}), 1).to_vector<double>() == std::vector<double>{1, 1});
    CHECK(ops::mean(ops::reshape(ones, {kMany / 2, 2}), 0).to_vector<double>() == std::vector<double>{1, 1});
    // A parameter with an f32 gradient, as in the engine: each of many rows adds 1.
    Tensor bias = Tensor::zeros({1}, dtype);
    bias.set_requires_grad();
    bias.gradient_slot()->dtype = DType::f32;
    Tape tape;
    {
      const TapeScope recording(&tape);
      const Tensor y = ops::add(ops::reshape(ones, {kMany, 1}), bias);
      backward(tape, ops::sum(y));  // the sum exceeds f16, but the gradient does not read it
    }
    CHECK(bias.gradient().to_vector<double>() == std::vector<double>{kMany});
  }
}

TEST_CASE("products, quotients and maxima in two bytes: gradients of broadcasts are not rounded before the sum",
          "[ops]") {
  enum class Op { mul, div, divided, maximum };
  struct Case {
    Op op;
    float x, dy;  // of every element; the broadcast input is 1
    double of_each;
  };
  const auto gradient_of = [](const Case& c, DType dtype, Size count, bool is_result) {
    const Tensor x = Tensor::empty({count}, dtype), dy = Tensor::empty({count}, dtype);
    fill(x, c.x), fill(dy, c.dy);
    Tensor one = Tensor::empty({1}, dtype);
    fill(one, 1);
    one.set_requires_grad();
    Tape tape;
    const TapeScope recording(&tape);
    const Tensor b = is_result ? ops::scale(one, 1) : one;
    const Tensor y = c.op == Op::mul       ? ops::mul(x, b)
                     : c.op == Op::div     ? ops::div(x, b)
                     : c.op == Op::divided ? ops::div(b, x)
                                           : ops::maximum(b, x);
    backward(tape, ops::sum(ops::cast(ops::mul(y, dy), DType::f32)));
    return one.gradient().item();
  };
  constexpr Size kMany = 1000;
  const float few = 1.0f / 8192;
  // Products and shares below f16's range, which round to 0, or above it.
  for (const Case& c : {Case{Op::mul, few, few, double{few} * few},
                        {Op::div, few, few, -double{few} * few},
                        {Op::divided, 8192, few, double{few} * few},
                        {Op::maximum, 1, 0x1p-24f, 0x1p-25},
                        {Op::mul, 1.5, 1.0009765625f, 1.50146484375},
                        {Op::div, -1.5, 1.0009765625f, 1.50146484375}}) {
    CAPTURE(static_cast<int>(c.op), c.x, c.dy);
    const double exact = static_cast<double>(kMany) * c.of_each;
    CHECK(gradient_of(c, DType::f16, kMany, false) == Approx(exact).epsilon(1e-5));
    CHECK(gradient_of(c, DType::f16, kMany, true) == Approx(exact).epsilon(6e-4).margin(0x1p-25));  // rounded once
  }
  // The sum of the two is 0.
  const Tensor x = ops::cast(Tensor::from(std::vector<float>{60000, -60000}, {2}), DType::f16);
  Tensor w = Tensor::zeros({1}, DType::f16);
  w.set_requires_grad();
  Tape tape;
  const TapeScope recording(&tape);
  backward(tape, ops::sum(ops::scale(ops::mul(x, w), 2)));
  CHECK(w.gradient().item() == 0);
}
