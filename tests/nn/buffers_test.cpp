// Buffers without an engine: their contents, and refused values and uses.
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "libtrain/nn/module.h"
#include "test_main/catch.h"

using namespace lt;

namespace {

struct Scaled final : nn::Model {
  struct Unit final : nn::Module {
    explicit Unit(const Tensor& values)
        : weight(add_parameter("weight", {3}, nn::Init::constant(2))), factors(add_buffer("factors", values)) {}
    nn::Parameter& weight;
    nn::Buffer& factors;
  };
  explicit Scaled(const Tensor& values) : unit(add_unit<Unit>("unit", values)), own(add_buffer("own", values)) {}
  Tensor loss(const Batch&) override {
    return run(unit, [this] { return ops::sum(ops::mul(unit.weight.tensor(), unit.factors.tensor())); });
  }
  Unit& unit;
  nn::Buffer& own;
};

Tensor thirds() { return Tensor::from(std::vector<double>{1.0 / 3, 2.0 / 3, 1}, {3}); }

}  // namespace

TEST_CASE("buffers take the model's device and dtype, and are no parameters", "[nn]") {
  Tensor values = thirds();
  Scaled model(values);
  fill(values, 7);  // the model has a copy
  CHECK(model.all_parameters().size() == 1);
  CHECK(model.parameter_count() == 3);
  CHECK(model.buffers() == std::vector<nn::Buffer*>{&model.own, &model.unit.factors});
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    model.materialize(kCpu, dtype, 1);
    CHECK(model.unit.factors.tensor().dtype() == dtype);
    CHECK(!model.unit.factors.tensor().requires_grad());
    const Tensor rounded = Tensor::empty({3}, dtype, kCpu);
    copy(rounded, thirds());
    CHECK(model.unit.factors.tensor().to_vector<double>() == rounded.to_vector<double>());
    CHECK(model.loss({}).item() == Approx(4).epsilon(0.01));
  }
  model.materialize(kMeta, DType::bf16, 1);
  CHECK(model.own.tensor().device() == kMeta);
  CHECK(model.own.tensor().shape() == Shape{3});
}

TEST_CASE("buffers of integers keep their type, and strided values their order", "[nn]") {
  const Tensor matrix = Tensor::from(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}, {2, 3});
  Scaled model(matrix.transposed(0, 1));
  model.materialize_buffers(kCpu, DType::bf16);
  CHECK(model.own.tensor().dtype() == DType::i32);
  CHECK(model.own.tensor().shape() == Shape{3, 2});
  CHECK(model.own.tensor().is_contiguous());
  const std::int32_t* const found = model.own.tensor().data<std::int32_t>();
  CHECK(std::vector<std::int32_t>(found, found + 6) == std::vector<std::int32_t>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("buffers: the ledger counts the copies of a model that is used, as constants", "[nn]") {
  const Size before = memory_live(kCpu).total;
  {
    Scaled model(thirds());
    CHECK(memory_live(kCpu).total == before);
    model.materialize_buffers(kCpu, DType::f32);
    CHECK(memory_live(kCpu).total == before + 2 * kAllocationAlignment);
    CHECK(memory_live(kCpu).of(MemoryOwner::constants) == 2 * kAllocationAlignment);
  }
  CHECK(memory_live(kCpu).total == before);
}

TEST_CASE("buffers refuse values that are not on the CPU, and use before there are any", "[nn]") {
  CHECK_THROWS_WITH(Scaled(Tensor()), "buffer factors: expected values on the CPU, got none");
  CHECK_THROWS_WITH(Scaled(Tensor::empty({3}, DType::f32, kMeta)),
                    "buffer factors: expected values on the CPU, got a tensor on meta");
  Scaled model(thirds());
  CHECK_THROWS_WITH(model.own.tensor(), "buffer own is used before the model was given to an engine or materialize()");
}
