// Views: the elements that narrow, transposed and view select, shared storage, and refused arguments.
#include "libtrain/error.h"
#include "libtrain/tensor/tensor.h"
#include "tensor/ramp.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

TEST_CASE("narrow takes a range of a dimension", "[tensor]") {
  const Tensor x = ramp({3, 4});
  CHECK(x.narrow(0, 1, 2).to_vector<float>() == std::vector<float>{4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(x.narrow(1, 1, 2).to_vector<float>() == std::vector<float>{1, 2, 5, 6, 9, 10});
  CHECK(x.narrow(-1, 3, 1).to_vector<float>() == std::vector<float>{3, 7, 11});
  CHECK(x.narrow(0, 1, 2).narrow(1, 2, 1).to_vector<float>() == std::vector<float>{6, 10});
  CHECK(x.narrow(0, 1, 2).is_contiguous());
  CHECK_FALSE(x.narrow(1, 1, 2).is_contiguous());
  CHECK(x.narrow(0, 3, 0).elements() == 0);
  CHECK(x.narrow(0, 3, 0).to_vector<float>().empty());
  CHECK(x.narrow(0, 2, 1).data<float>() == x.data<float>() + 8);
}

TEST_CASE("transposed swaps two dimensions", "[tensor]") {
  const Tensor x = ramp({2, 3});
  const Tensor t = x.transposed(0, 1);
  CHECK(t.shape() == Shape{3, 2});
  CHECK(t.strides() == Shape{1, 3});
  CHECK_FALSE(t.is_contiguous());
  CHECK(t.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(t.transposed(-1, -2).to_vector<float>() == x.to_vector<float>());
  CHECK(t.narrow(0, 1, 1).to_vector<float>() == std::vector<float>{1, 4});
  const Tensor cube = ramp({2, 2, 2}).transposed(0, 2);
  CHECK(cube.to_vector<float>() == std::vector<float>{0, 4, 2, 6, 1, 5, 3, 7});
  // A dimension of one element moves nothing.
  CHECK(ramp({1, 5}).transposed(0, 1).is_contiguous());
}

TEST_CASE("view gives contiguous elements another shape", "[tensor]") {
  const Tensor x = ramp({2, 6});
  const Tensor y = x.view({3, 2, 2});
  CHECK(y.shape() == Shape{3, 2, 2});
  CHECK(y.strides() == Shape{4, 2, 1});
  CHECK(y.data() == x.data());
  CHECK(x.narrow(0, 1, 1).view({6}).to_vector<float>() == std::vector<float>{6, 7, 8, 9, 10, 11});
  CHECK(ramp({1}).view({}).item() == 0);
}

TEST_CASE("a view is the same storage, without gradient history", "[tensor]") {
  Tensor x = ramp({2, 3});
  x.set_requires_grad();
  const Tensor row = x.narrow(0, 1, 1), flat = x.view({6}), turned = x.transposed(0, 1), same = x.detach();
  row.data<float>()[0] = 50;
  CHECK(flat.data<float>()[3] == 50);
  CHECK(turned.to_vector<float>()[1] == 50);
  CHECK(same.data() == x.data());
  CHECK_FALSE(same.is_same(x));
  CHECK(Tensor(x).is_same(x));
  for (const Tensor& view : {row, flat, turned, same}) CHECK_FALSE(view.requires_grad());
  // It keeps the storage alive.
  x = Tensor();
  CHECK(row.to_vector<float>() == std::vector<float>{50, 4, 5});
}

TEST_CASE("views outside of the tensor are refused", "[tensor]") {
  const Tensor x = ramp({3, 4});
  for (const auto& [dim, begin, length] :
       {std::tuple<int, Size, Size>{0, 2, 2}, {1, -1, 2}, {1, 0, -1}, {2, 0, 1}, {-3, 0, 1}}) {
    INFO(dim << " " << begin << " " << length);
    CHECK_THROWS_AS(x.narrow(dim, begin, length), UsageError);
  }
  CHECK_THROWS_AS(x.view({5}), UsageError);
  CHECK_THROWS_AS(x.narrow(1, 0, 2).view({6}), UsageError);
  CHECK_THROWS_AS(x.transposed(0, 1).view({12}), UsageError);
  CHECK_THROWS_AS(x.transposed(0, 2), UsageError);
  CHECK_THROWS_AS(x.transposed(-3, 0), UsageError);
  CHECK_THROWS_WITH(x.narrow(1, 3, 2), "cannot take 2 from 3 of dimension 1 of [3, 4]");
  CHECK_THROWS_WITH(x.narrow(1, 0, 2).view({6}), "cannot view [3, 2] as [6]");
}
