// Checks the operators of tensors and numbers, pow and the comparisons.
#include <limits>

#include "libtrain/error.h"
#include "ops/gradient_check.h"

using namespace lt;
using namespace lt_test;

namespace {

using Doubles = std::vector<double>;
using Mask = std::vector<std::int32_t>;

const std::vector<Shape> kSomeShapes = {{1, 1}, {1, 7}, {3, 1}, {5, 7}, {4, 33}};

Tensor doubles(const Doubles& values, const Shape& shape) { return Tensor::from(values, shape); }

// Numbers from 0.3 on.
Tensor above_zero(const Shape& shape, std::uint64_t key) {
  Doubles values = normal_values(shape.elements(), key);
  for (double& value : values) value = std::abs(value) + 0.3;
  return Tensor::from(values, shape);
}

}  // namespace

TEST_CASE("operators: values, and gradients of both sides with broadcasting", "[ops]") {
  const std::vector<std::pair<Shape, Shape>> pairs = {
      {{3, 5}, {3, 5}}, {{3, 5}, {5}}, {{5}, {3, 5}}, {{3, 1}, {1, 5}}, {{2, 3, 5}, {3, 1}}, {{1}, {4}}, {{}, {3}}};
  for (const auto& [a, b] : pairs) {
    check_gradient([](auto& x) { return x[0] - x[1]; }, {normal(a, 1), normal(b, 2)});
    check_gradient([](auto& x) { return x[0] - x[1] * x[0] + x[1] / x[0]; }, {above_zero(a, 1), normal(b, 2)});
  }
  check_gradient([](auto& x) { return x[0] - x[0] * x[0]; }, {normal({3, 5}, 1)});
  const Tensor a = doubles({1, 2, 4}, {3}), b = doubles({3, 5, 7}, {3});
  CHECK((a + b).to_vector<double>() == Doubles{4, 7, 11});
  CHECK((a - b).to_vector<double>() == Doubles{-2, -3, -3});
  CHECK((a * b).to_vector<double>() == Doubles{3, 10, 28});
  CHECK((b / a).to_vector<double>() == Doubles{3, 2.5, 1.75});
  CHECK((-a).to_vector<double>() == Doubles{-1, -2, -4});
}

TEST_CASE("operators with a number: values, gradients, and one rounding", "[ops]") {
  for (const Shape& shape : kSomeShapes) {
    check_gradient([](auto& x) { return x[0] + 1; }, {normal(shape, 1)});
    check_gradient([](auto& x) { return 2u + x[0]; }, {normal(shape, 1)});
    check_gradient([](auto& x) { return x[0] - 0.5f; }, {normal(shape, 1)});
    check_gradient([](auto& x) { return 2 - x[0]; }, {normal(shape, 1)});
    check_gradient([](auto& x) { return x[0] * Size{3}; }, {normal(shape, 1)});
    check_gradient([](auto& x) { return 0.3 * x[0]; }, {normal(shape, 1)});
    check_gradient([](auto& x) { return x[0] / 3; }, {normal(shape, 1)});
    check_gradient([](auto& x) { return 3 / x[0]; }, {above_zero(shape, 1)});
    check_gradient([](auto& x) { return -x[0]; }, {normal(shape, 1)});
    check_gradient([](auto& x) { return x[0] + (2 - x[0]) / x[0]; }, {above_zero(shape, 1)});  // a second contribution
  }
  const Tensor x = doubles({1, -2, 0.5}, {3});
  CHECK((x + 1).to_vector<double>() == Doubles{2, -1, 1.5});
  CHECK((x - 1).to_vector<double>() == Doubles{0, -3, -0.5});
  CHECK((2 - x).to_vector<double>() == Doubles{1, 4, 1.5});
  CHECK((x * 4).to_vector<double>() == Doubles{4, -8, 2});
  CHECK((x / 3).to_vector<double>() == Doubles{1.0 / 3, -2.0 / 3, 0.5 / 3});
  CHECK((1 / x).to_vector<double>() == Doubles{1, -0.5, 2});
  // A division by a number is exact to half a unit: 5 / 3 in f32 is not 5 * (1 / 3).
  const Tensor five = Tensor::from(std::vector<float>{5}, {1});
  CHECK((five / 3).to_vector<float>()[0] == 5.0f / 3.0f);
  // In bf16 the number keeps its f32 value, and the sum is rounded once.
  const Tensor one = Tensor::from(std::vector<bf16>{bf16(1.0f)}, {1});
  CHECK((one + 0.003907).item() == 1.0078125);
  CHECK((one + 0.003905).item() == 1);
}

TEST_CASE("pow: values and gradients", "[ops]") {
  for (const Shape& shape : kSomeShapes) {
    for (const double exponent : {-1.5, -1.0, 0.0, 0.5, 1.0, 2.5}) {
      check_gradient([=](auto& x) { return ops::pow(x[0], exponent); }, {above_zero(shape, 1)});
    }
    for (const double exponent : {1.0, 2.0, 3.0}) {
      check_gradient([=](auto& x) { return ops::pow(x[0], exponent); }, {normal(shape, 1)});
    }
  }
  const Tensor x = doubles({-2, 0, 0.1}, {3});
  CHECK(ops::pow(x, 2).to_vector<double>() == Doubles{4, 0, 0.1 * 0.1});
  CHECK(ops::pow(x, 3).to_vector<double>() == Doubles{-8, 0, std::pow(0.1, 3.0)});
  CHECK(std::isnan(ops::pow(x, 0.5).to_vector<double>()[0]));
  // At 0 the derivatives of x^0, x^1 and x^2 are finite.
  for (const double exponent : {0.0, 1.0, 2.0}) {
    Tensor zero = doubles({0}, {1});
    zero.set_requires_grad();
    Tape tape;
    const TapeScope recording(&tape);
    backward(tape, ops::sum(ops::pow(zero, exponent)));
    CHECK(zero.gradient().item() == (exponent == 1 ? 1 : 0));
  }
  CHECK_THROWS_WITH(ops::pow(x, std::numeric_limits<double>::infinity()),
                    "pow: exponent: expected a finite number, got inf");
}

TEST_CASE("comparisons: masks of tensors and of numbers", "[ops]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Doubles left{1, 2, 3, nan, 5, nan}, right{2, 2, 2, 1, nan, nan};
  struct Expected {
    const char* name;
    Tensor (*of_tensors)(const Tensor&, const Tensor&);
    Tensor (*of_number)(const Tensor&, double);
    Mask tensors, number;  // left with right, left with 2
  };
  const Expected expected[] = {
      {"less", ops::less, ops::less, {1, 0, 0, 0, 0, 0}, {1, 0, 0, 0, 0, 0}},
      {"less_equal", ops::less_equal, ops::less_equal, {1, 1, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0}},
      {"greater", ops::greater, ops::greater, {0, 0, 1, 0, 0, 0}, {0, 0, 1, 0, 1, 0}},
      {"greater_equal", ops::greater_equal, ops::greater_equal, {0, 1, 1, 0, 0, 0}, {0, 1, 1, 0, 1, 0}},
      {"equal", ops::equal, ops::equal, {0, 1, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 0}},
      {"not_equal", ops::not_equal, ops::not_equal, {1, 0, 1, 1, 1, 1}, {1, 0, 1, 1, 1, 1}},
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const Tensor a = ops::cast(doubles(left, {2, 3}), dtype), b = ops::cast(doubles(right, {2, 3}), dtype);
    for (const Expected& e : expected) {
      INFO(e.name << " " << dtype_name(dtype));
      const Tensor mask = e.of_tensors(a, b);
      CHECK(mask.dtype() == DType::i32);
      CHECK(mask.shape() == Shape{2, 3});
      CHECK(mask.to_vector<std::int32_t>() == e.tensors);
      CHECK(e.of_number(a, 2).to_vector<std::int32_t>() == e.number);
    }
  }
  // i32, exact where f32 is not; with broadcasting on both sides.
  const Tensor ids = Tensor::from(Mask{16777216, 16777217, -5}, {3});
  CHECK(ops::equal(ids, 16777217).to_vector<std::int32_t>() == Mask{0, 1, 0});
  CHECK(ops::less(ids, Tensor::from(Mask{0, 16777217}, {2, 1})).to_vector<std::int32_t>() == Mask{0, 0, 1, 1, 0, 1});
  // The number is rounded as the elements were.
  CHECK(ops::equal(ops::cast(doubles({0.1}, {1}), DType::bf16), 0.1).to_vector<std::int32_t>() == Mask{1});
  // Rows beyond one thread's share.
  const Tensor many = normal({3, 20001}, 1), positive = ops::greater(many, 0);
  const auto values = many.to_vector<double>();
  const auto mask = positive.to_vector<std::int32_t>();
  Size wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) wrong += mask[i] != (values[i] > 0 ? 1 : 0);
  CHECK(wrong == 0);
}

TEST_CASE("comparisons have no gradient, and select in where()", "[ops]") {
  Tensor x = doubles({-1, 2, -3}, {3});
  x.set_requires_grad();
  Tape tape;
  const TapeScope recording(&tape);
  const Tensor mask = ops::less(x, 0);
  CHECK_FALSE(mask.requires_grad());
  const Tensor magnitude = ops::where(mask, -x, x);
  CHECK(magnitude.to_vector<double>() == Doubles{1, 2, 3});
  backward(tape, ops::sum(magnitude));
  CHECK(x.gradient().to_vector<double>() == Doubles{-1, 1, -1});
}

TEST_CASE("operators and comparisons name wrong arguments, and run on meta", "[ops]") {
  const Tensor a = Tensor::zeros({2, 3}, DType::f32), b = Tensor::zeros({4, 5}, DType::f32);
  const Tensor ids = Tensor::zeros({2, 3}, DType::i32);
  CHECK_THROWS_WITH(a - b, "sub: b: expected a shape that broadcasts with [2, 3], got [4, 5]");
  CHECK_THROWS_WITH(a - Tensor(), "sub: b: expected a tensor, got none");
  CHECK_THROWS_WITH(1 - Tensor(), "sub: b: expected a tensor, got none");
  CHECK_THROWS_WITH(ids + 1, "add: a: expected f32, f64, bf16 or f16, got i32");
  CHECK_THROWS_WITH(1 / ids, "div: b: expected f32, f64, bf16 or f16, got i32");
  CHECK_THROWS_WITH(ops::less(a, b), "less: b: expected a shape that broadcasts with [2, 3], got [4, 5]");
  CHECK_THROWS_WITH(ops::equal(a, ids), "equal: b: expected f32, f64, bf16 or f16, got i32");
  CHECK_THROWS_WITH(ops::equal(ids, a), "equal: b: expected i32, got f32");
  for (const double number : {2.5, 3e9, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(ops::less(ids, number), UsageError);
  }
  CHECK_THROWS_WITH(ops::greater(ids, 2.5),
                    "greater: b: expected an integer in the range of i32, as the elements of a, got 2.500000");
  const Tensor x = Tensor::empty({2, 3}, DType::bf16, kMeta);
  CHECK((2 - x / 3 - x).shape() == Shape{2, 3});
  CHECK(ops::pow(x, 2).dtype() == DType::bf16);
  CHECK(ops::less(x, Tensor::empty({4, 1, 3}, DType::bf16, kMeta)).shape() == Shape{4, 2, 3});
  CHECK(ops::less(x, 1).dtype() == DType::i32);
}
