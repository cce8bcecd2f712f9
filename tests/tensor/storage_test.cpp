// Storage that is bound and released: unbound tensors, rebinding, and values that a recipe restores.
#include "tensor/storage.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "libtrain/tensor/tensor.h"
#include "tensor/ramp.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::tensor;
using namespace lt_test;

TEST_CASE("an unbound tensor has a shape and holds nothing; its use names it", "[tensor]") {
  const MemoryUse before = memory_live(kCpu);
  const Tensor weight = Tensor::unbound({2, 3}, DType::f32, kCpu, "blocks.3.ffn.up.weight");
  CHECK(weight.shape() == Shape{2, 3});
  CHECK(weight.bytes() == 24);
  CHECK_FALSE(weight.is_bound());
  CHECK(memory_live(kCpu).total == before.total);
  const std::string message =
      "the values of blocks.3.ffn.up.weight [2, 3] are not here: its unit is not gathered at this point";
  CHECK_THROWS_AS(weight.data(), UsageError);
  CHECK_THROWS_WITH(weight.data(), message);
  CHECK_THROWS_WITH(weight.to_vector<float>(), message);
  CHECK_THROWS_WITH(weight.view({6}), message);
  CHECK_THROWS_WITH(weight.narrow(0, 0, 1), message);
}

TEST_CASE("rebind makes every copy of the handle name a range of the storage; unbind lets it go", "[tensor]") {
  Tensor weight = Tensor::unbound({2, 3}, DType::f32, kCpu, "weight");
  const Tensor copy_of_handle = weight;
  Tensor storage = ramp({10});
  TensorStorage::rebind(weight, storage, 4);
  CHECK(copy_of_handle.is_bound());
  CHECK(copy_of_handle.to_vector<float>() == std::vector<float>{4, 5, 6, 7, 8, 9});
  CHECK(copy_of_handle.data<float>() == storage.data<float>() + 4);
  TensorStorage::rebind(weight, storage.narrow(0, 2, 7), 1);  // an offset of an offset
  CHECK(copy_of_handle.data<float>() == storage.data<float>() + 3);
  const MemoryUse bound = memory_live(kCpu);
  storage = Tensor();
  CHECK(memory_live(kCpu).total == bound.total);
  TensorStorage::unbind(weight);
  CHECK(memory_live(kCpu).total == bound.total - kAllocationAlignment);
  CHECK_THROWS_AS(copy_of_handle.data(), UsageError);
}

TEST_CASE("rebind refuses what does not fit", "[tensor]") {
  Tensor weight = Tensor::unbound({2, 3}, DType::f32, kCpu, "weight");
  CHECK_THROWS_WITH(TensorStorage::rebind(weight, ramp({10}), 5), "weight: cannot bind 6 elements at 5 of 10");
  CHECK_THROWS_AS(TensorStorage::rebind(weight, ramp({10}), -1), InternalError);
  CHECK_THROWS_AS(TensorStorage::rebind(weight, Tensor::zeros({6}, DType::bf16), 0), InternalError);
  CHECK_THROWS_AS(TensorStorage::rebind(weight, ramp({3, 4}).transposed(0, 1), 0), InternalError);
  CHECK_FALSE(weight.is_bound());
}

TEST_CASE("released values come back through the recipe, once for each release", "[tensor]") {
  int runs = 0;
  const Tensor x = ramp({3});
  TensorStorage::set_recipe(x, [&runs](const Tensor& out) {
    ++runs;
    for (int i = 0; i < 3; ++i) out.data<float>()[i] = static_cast<float>(10 * i);
  });
  const MemoryUse before = memory_live(kCpu);
  CHECK(x.to_vector<float>() == std::vector<float>{0, 1, 2});
  x.release_values();
  CHECK(memory_live(kCpu).total == before.total - kAllocationAlignment);
  CHECK(runs == 0);
  CHECK(x.to_vector<float>() == std::vector<float>{0, 10, 20});
  CHECK(x.narrow(0, 2, 1).item() == 20);
  CHECK(runs == 1);
  CHECK(memory_live(kCpu).total == before.total);
  x.release_values();
  x.require_values();
  CHECK(runs == 2);
}

TEST_CASE("a view of values that are released later keeps them", "[tensor]") {
  const Tensor x = ramp({3});
  TensorStorage::set_recipe(x, [](const Tensor& out) { fill_zero(out); });
  const Tensor view = x.narrow(0, 1, 2);
  x.release_values();
  CHECK(view.to_vector<float>() == std::vector<float>{1, 2});
  CHECK(x.to_vector<float>() == std::vector<float>{0, 0, 0});
}

TEST_CASE("without a recipe values are not released", "[tensor]") {
  const Tensor x = ramp({3});
  x.release_values();
  CHECK(x.to_vector<float>() == std::vector<float>{0, 1, 2});
}
