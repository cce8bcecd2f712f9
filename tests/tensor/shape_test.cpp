// Shapes: sizes, numbers of elements, equality, text, and invalid shapes.
#include <cstdint>
#include <limits>
#include <vector>

#include "libtrain/error.h"
#include "libtrain/tensor/tensor.h"
#include "test_main/catch.h"

using namespace lt;

TEST_CASE("shape: sizes counted from both ends, product, text", "[tensor]") {
  const Shape shape{2, 3, 5};
  CHECK(shape.dims() == 3);
  CHECK(shape[0] == 2);
  CHECK(shape[-1] == 5);
  CHECK(shape[-3] == 2);
  CHECK(shape.elements() == 30);
  CHECK(to_string(shape) == "[2, 3, 5]");
  CHECK(std::vector<Size>(shape.begin(), shape.end()) == std::vector<Size>{2, 3, 5});

  CHECK(Shape{}.dims() == 0);
  CHECK(Shape{}.elements() == 1);
  CHECK(to_string(Shape{}) == "[]");
  CHECK(Shape{3, 0, 5}.elements() == 0);
}

TEST_CASE("shape: equal where dimensions and sizes are", "[tensor]") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK_FALSE(Shape{2, 3} == Shape{3, 2});
  CHECK_FALSE(Shape{2, 3} == Shape{2, 3, 1});
  CHECK_FALSE(Shape{2, 3, 1} == Shape{2, 3});
  CHECK_FALSE(Shape{} == Shape{1});
  // Leftovers of a longer shape do not count after an assignment.
  Shape shape{7, 7, 7};
  shape = Shape{4};
  CHECK(shape == Shape{4});
}

TEST_CASE("shape: sizes of any integer type, without narrowing", "[tensor]") {
  const std::vector<float> values(6, 1.0f);
  const int rows = 2;
  const std::uint8_t columns = 3;
  CHECK(Shape{values.size(), 3} == Shape{6, 3});
  CHECK(Shape{rows, columns, 1u} == Shape{2, 3, 1});
  CHECK(Tensor::empty({values.size(), rows}, DType::f32).shape() == Shape{6, 2});
  CHECK(Tensor::from(values, {values.size() / columns, columns}).shape() == Shape{2, 3});
  CHECK(Shape{std::uint64_t{0x7fffffffffffffff}}[0] == std::numeric_limits<Size>::max());
  CHECK_THROWS_WITH((Shape{2, std::uint64_t{1} << 63}), "a size is at most 2^63 - 1, got 9223372036854775808");
  CHECK_THROWS_WITH((Shape{rows, rows - 3}), "a size cannot be negative, got -1");
}

TEST_CASE("shape: too many dimensions, negative and too large sizes are refused", "[tensor]") {
  CHECK(Shape{1, 2, 3, 4, 5, 6}.elements() == 720);
  CHECK_THROWS_AS((Shape{1, 1, 1, 1, 1, 1, 1}), UsageError);
  CHECK_THROWS_AS((Shape{2, -1}), UsageError);
  Shape assigned{4, 3};
  assigned[0] = -2;
  CHECK_THROWS_WITH(assigned.elements(), "a size cannot be negative, got the shape [-2, 3]");
  assigned[1] = -3;  // the product is positive
  CHECK_THROWS_AS(Tensor::empty(assigned, DType::f32), UsageError);
  CHECK_THROWS_AS(Tensor::empty({6}, DType::f32).view(assigned), UsageError);
  const Shape shape{2, 3};
  for (const int dim : {2, -3}) CHECK_THROWS_AS(shape[dim], UsageError);
  CHECK_THROWS_WITH(Tensor::zeros({2, 3}, DType::f32).dim(2), "expected a dimension of [2, 3], got 2");
  constexpr Size kLarge = Size{1} << 62;
  CHECK_THROWS_AS((Shape{kLarge, 4}.elements()), UsageError);
  CHECK_THROWS_AS(Tensor::empty({0, kLarge, 4}, DType::f32, kMeta), UsageError);  // no elements, but strides
}
