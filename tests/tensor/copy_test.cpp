// Copies between dtypes and between views; zeroing; values to and from the host.
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "libtrain/device/context.h"
#include "libtrain/error.h"
#include "libtrain/tensor/tensor.h"
#include "memory/allocation.h"
#include "tensor/ramp.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

// Refuses memory, as an arena does whose step took none here.
struct NoMemory final : memory::BlockSource {
  Block allocate(Size, MemoryOwner) override { throw std::logic_error("an allocation on the device"); }
  void release(std::size_t) noexcept override {}
};

}  // namespace

TEST_CASE("reading values converts on the host, and takes no memory of the device", "[tensor]") {
  const Tensor half = Tensor::from(std::vector<bf16>{bf16(1), bf16(2), bf16(3), bf16(4), bf16(5), bf16(6)}, {2, 3});
  const memory::AllocationScope none(std::make_shared<NoMemory>(), kCpu);
  CHECK(half.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(half.transposed(0, 1).to_vector<double>() == std::vector<double>{1, 4, 2, 5, 3, 6});
  CHECK(half.narrow(1, 1, 2).narrow(0, 1, 1).to_vector<float>() == std::vector<float>{5, 6});
  CHECK(half.narrow(0, 0, 0).to_vector<float>().empty());
  CHECK(half.narrow(0, 1, 1).narrow(1, 2, 1).item() == 6);
  CHECK_THROWS_WITH(half.to_vector<std::int32_t>(), "to_vector: expected i32, got bf16; only floating dtypes convert");
}

TEST_CASE("the address of values on meta is refused with a hint", "[tensor]") {
  const Tensor x = Tensor::empty({2, 3}, DType::f32, kMeta);
  std::string hint;
  try {
    x.data<float>();
  } catch (const UsageError& error) {
    hint = error.hint();
    CHECK(std::string(error.what()).starts_with("cannot read the values of a meta tensor of shape [2, 3]"));
  }
  CHECK(hint == "return early where device().is_meta(): plans and rehearsals run on shapes alone");
}

TEST_CASE("copy between dtypes rounds as bf16 does and is exact upwards", "[tensor]") {
  const std::vector<float> values = {0, -1.5f, 1.0f + 0x1p-8f, 1.0f + 0x3p-8f, 3.14159265f, 1e30f, -0x1p-130f};
  const Tensor x = Tensor::from(values, {7});
  std::vector<float> rounded;
  for (const float value : values) rounded.push_back(bf16(value));
  const Tensor half = Tensor::empty({7}, DType::bf16), wide = Tensor::empty({7}, DType::f64),
               back = Tensor::empty({7}, DType::f32);
  copy(half, x);
  CHECK(half.to_vector<float>() == rounded);
  copy(wide, x);
  CHECK(wide.to_vector<double>() == std::vector<double>(values.begin(), values.end()));
  copy(back, wide);
  CHECK(back.to_vector<float>() == values);
  copy(wide, half);
  CHECK(wide.to_vector<double>() == std::vector<double>(rounded.begin(), rounded.end()));
  CHECK(half.to_vector<double>() == std::vector<double>(rounded.begin(), rounded.end()));
}

TEST_CASE("copy from and to strided views, with and without a change of dtype", "[tensor]") {
  const Tensor x = ramp({4, 6});
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    INFO(dtype_name(dtype));
    // A block of columns, turned, into a block of another tensor; what lies around it stays.
    const Tensor target = Tensor::zeros({5, 7}, dtype);
    copy(target.narrow(0, 1, 3).narrow(1, 2, 4), x.narrow(1, 1, 3).transposed(0, 1));
    std::vector<float> expected(35, 0.0f);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 4; ++j) expected[(1 + i) * 7 + 2 + j] = static_cast<float>(j * 6 + 1 + i);
    }
    CHECK(target.to_vector<float>() == expected);
  }
}

TEST_CASE("copy of integers and bytes through views", "[tensor]") {
  const Tensor ids = Tensor::from(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor turned = Tensor::empty({3, 2}, DType::i32);
  copy(turned, ids.transposed(0, 1));
  const std::int32_t* values = turned.data<std::int32_t>();
  CHECK(std::vector<std::int32_t>(values, values + 6) == std::vector<std::int32_t>{1, 4, 2, 5, 3, 6});

  const Tensor bytes = Tensor::empty({2, 3}, DType::u8), some = Tensor::empty({2, 2}, DType::u8);
  for (int i = 0; i < 6; ++i) bytes.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(250 + i);
  copy(some, bytes.narrow(1, 1, 2));
  const std::uint8_t* copied = some.data<std::uint8_t>();
  CHECK(std::vector<int>(copied, copied + 4) == std::vector<int>{251, 252, 254, 255});
}

TEST_CASE("copy refuses other shapes and devices", "[tensor]") {
  const Tensor x = ramp({2, 3});
  CHECK_THROWS_AS(copy(Tensor::empty({3, 2}, DType::f32), x), UsageError);
  CHECK_THROWS_AS(copy(Tensor::empty({2, 3}, DType::f32, kMeta), x), UsageError);
  CHECK_THROWS_WITH(copy(Tensor::empty({6}, DType::f32), x), "cannot copy [2, 3] of cpu to [6] of cpu");
  CHECK_NOTHROW(copy(Tensor::empty({0}, DType::f32), Tensor::empty({0}, DType::f32)));
  CHECK_THROWS_WITH(copy(Tensor::empty({2, 3}, DType::i32), x),
                    "copy: expected i32, got f32; only floating dtypes convert");
}

TEST_CASE("zeros, and fill_zero of a view, which leaves what lies around it", "[tensor]") {
  CHECK(Tensor::zeros({2, 2}, DType::f64).to_vector<double>() == std::vector<double>(4, 0.0));
  const Tensor x = ramp({3, 3});
  fill_zero(x.narrow(0, 1, 1));
  CHECK(x.to_vector<float>() == std::vector<float>{0, 1, 2, 0, 0, 0, 6, 7, 8});
  fill_zero(x.narrow(1, 2, 1));
  CHECK(x.to_vector<float>() == std::vector<float>{0, 1, 0, 0, 0, 0, 6, 7, 0});
}

TEST_CASE("from and to_vector, item", "[tensor]") {
  CHECK(Tensor::from(std::vector<float>{1.5f, -2}, {2}).to_vector<double>() == std::vector<double>{1.5, -2});
  CHECK(Tensor::from(std::vector<double>{0.1}, {1}).to_vector<float>() == std::vector<float>{0.1f});
  CHECK(Tensor::from(std::vector<bf16>{bf16(0.5f)}, {}).item() == 0.5);
  CHECK(Tensor::from(std::vector<double>{0.1}, {1, 1}).item() == 0.1);
  const Tensor ids = Tensor::from(std::vector<std::int32_t>{1, 2, 3, 4}, {2, 2});
  CHECK(ids.transposed(0, 1).to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 3, 2, 4});
  CHECK_THROWS_AS(ids.to_vector<float>(), UsageError);
  CHECK_THROWS_AS(ramp({2}).item(), UsageError);
  CHECK_THROWS_WITH(Tensor::from(std::vector<float>{1, 2, 3}, {2, 2}), "shape [2, 2] has 4 elements, got 3");
  CHECK_THROWS_AS(ramp({2}).data<double>(), UsageError);
  CHECK_THROWS_AS(fill(Tensor::zeros({1}, DType::i32), 1), UsageError);
  // The strides of a tensor without elements do not matter.
  CHECK(Tensor::zeros({2, 4, 3}, DType::f32).narrow(1, 0, 0).view({0}).elements() == 0);
  // Tensors of two meta devices have no values either.
  CHECK_NOTHROW(
      copy(Tensor::zeros({2}, DType::f32, kMeta), Tensor::zeros({2}, DType::f32, meta_for({DeviceType::cuda, 0}))));
}

TEST_CASE("a tensor that is none says so", "[tensor]") {
  const Tensor none;
  CHECK_THROWS_WITH(none.shape(), "expected a tensor, got none: it is not defined");
  CHECK_THROWS_AS(none.data(), UsageError);
  CHECK_THROWS_AS(ramp({2}).gradient().to_vector<float>(), UsageError);
}

TEST_CASE("a context learns that values of the host become a tensor on a device", "[tensor]") {
  const std::vector<float> values{1, 2};
  bool told = false;
  const ContextMemberScope<&Context::makes_host_values> scope(&told);
  Tensor::from(values, {2});
  CHECK(!told);
  Tensor::from(values, {2}, kMeta);
  CHECK(told);
}
