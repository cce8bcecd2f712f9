// f16 and its loss scale: steps with overflows are skipped, the scale changes on the device, and a resumed run has the
// same bits. In every dtype, a skipped step does not count as an update.
#include <algorithm>
#include <cmath>
#include <vector>

#include "libtrain/error.h"
#include "libtrain/nn/layers.h"
#include "libtrain/parallel/engine.h"
#include "parallel/for_tests.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

const nn::TransformerSpec kSpec = small_spec("gpt-tiny");

EngineOptions options(DType dtype, bool graph = false) {
  return {.micro_batch = 2, .accum = 2, .seq = 16, .dtype = dtype, .device = test_device(), .cuda_graph = graph};
}

StepResult step_of(Engine& engine) {
  return engine.step(rows_of_step(engine.batch_shape(), engine.steps_done(), kSpec.vocab));
}

// The losses of steps that had an update.
std::vector<double> losses(DType dtype, float scale, bool graph = false) {
  const auto model = nn::make_transformer(kSpec);
  Engine engine(*model, ranks(), {.strategy = Strategy::zero3}, AdamW{.lr = 1e-3f}, options(dtype, graph));
  if (scale > 0) engine.set_loss_scale({scale, 5, 0});
  std::vector<double> values;
  for (Size step = 0; step < 6; ++step) {
    const LossScale before = engine.loss_scale();
    const std::uint64_t state = state_checksum(engine, ranks());
    const StepResult result = step_of(engine);
    const LossScale after = engine.loss_scale();
    const bool skipped = !std::isfinite(result.norm());
    CHECK(result.loss_scale() == before.scale);
    CHECK(after.scale == (skipped ? before.scale / 2 : before.scale));
    CHECK(after.skipped == before.skipped + (skipped ? 1 : 0));
    if (dtype == DType::f16) CHECK(after.steps == (skipped ? 0 : before.steps + 1));
    CHECK((state_checksum(engine, ranks()) == state) == skipped);
    if (!skipped) values.push_back(result.loss());
  }
  CHECK((parallel::EngineForTests::graph_launches(engine) > 0) == graph);
  return values;
}

}  // namespace

TEST_CASE("f16: gradients beyond its numbers are skipped and halve the scale; others follow those of f32",
          "[parallel]") {
  const std::vector<double> expected = losses(DType::f32, 0);
  for (const bool graph : {false, true}) {
    if (graph && test_device().type != DeviceType::cuda) continue;
    const std::vector<double> scaled = losses(DType::f16, 0, graph);
    CHECK(scaled.size() == expected.size());
    for (std::size_t i = 0; i < std::min(scaled.size(), expected.size()); ++i) {
      CHECK(scaled[i] == Approx(expected[i]).epsilon(2e-3));
    }
    // 2^40 times a gradient exceeds 65504 throughout these steps.
    CHECK(losses(DType::f16, 0x1p40f, graph).empty());
  }
}

TEST_CASE("f16: a run that takes over the state of another, skipped steps too, has its bits", "[parallel]") {
  const ParallelOptions parallel{.strategy = Strategy::ddp, .deterministic = Determinism::on};
  const auto model = nn::make_transformer(kSpec), other_model = nn::make_transformer(kSpec);
  Engine engine(*model, ranks(), parallel, AdamW{.lr = 1e-3f}, options(DType::f16));
  Engine other(*other_model, ranks(), parallel, AdamW{.lr = 1e-3f}, options(DType::f16));
  engine.set_loss_scale({0x1p26f, 0, 0});  // some steps are skipped
  for (Size step = 0; step < 8; ++step) step_of(engine).norm();
  const LossScale scale = engine.loss_scale();
  CHECK(scale.skipped > 0);
  CHECK(scale.skipped < 8);
  other.set_loss_scale(scale);
  other.set_progress(engine.steps_done(), engine.samples_done());
  const ShardMap from = engine.shard_map(), to = other.shard_map();
  for (std::size_t i = 0; i < to.needed.size(); ++i) copy(to.needed[i].values, from.needed[i].values);
  other.parameters_changed();
  for (Size step = 0; step < 4; ++step) {
    const StepResult a = step_of(engine);
    const float loss = a.loss(), norm = a.norm();
    double squares = 0;
    for (const GradientNorm& gradient : engine.gradient_norms()) squares += gradient.norm * gradient.norm;
    CHECK(std::sqrt(squares) == Approx(norm).epsilon(1e-6));  // without the loss scale
    const StepResult b = step_of(other);
    CHECK(b.loss() == loss);
    CHECK(b.norm() == norm);
  }
  CHECK(state_checksum(engine, ranks()) == state_checksum(other, ranks()));
}

TEST_CASE("a step without an update counts for none, in every dtype", "[parallel]") {
  const OptimizerGroups optimizer(averaged(AdamW{.lr = 1e-3f}, 0.9));
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    Scaled model(kSpec), usual(kSpec);
    Engine engine(model, ranks(), {}, optimizer, options(dtype)), other(usual, ranks(), {}, optimizer, options(dtype));
    const Batch batch = rows_of_step(engine.batch_shape(), 0, kSpec.vocab);
    for (const double factor : {1.0, std::nan(""), HUGE_VAL, 1.0}) {
      if (ranks().rank() == ranks().size() - 1) model.factor = factor;  // all ranks skip what one cannot take
      CHECK(std::isfinite(engine.step(batch).norm()) == (factor == 1));
    }
    for (int i = 0; i < 2; ++i) CHECK(std::isfinite(other.step(batch).norm()));
    CHECK(engine.loss_scale().skipped == 2);
    CHECK(other.loss_scale().skipped == 0);
    if (dtype == DType::f16) continue;  // its scale was halved, so gradients are rounded elsewhere
    CHECK(state_checksum(engine, ranks()) == state_checksum(other, ranks()));
  }
}

TEST_CASE("a step that is not finite leaves every kind of state as it was, and the steps after it too", "[parallel]") {
  struct Case {
    const char* name;
    EngineOptions options;
    OptimizerGroups optimizer;
  };
  const AdamW adamw{.lr = 1e-3f}, rounded{.lr = 1e-3f, .state_dtype = DType::bf16, .masters = false};
  EngineOptions fp8 = options(DType::bf16);
  fp8.fp8 = true;
  const Case cases[] = {{"f32", options(DType::f32), averaged(adamw, 0.9)},
                        {"bf16", options(DType::bf16), averaged(adamw, 0.9)},
                        {"bf16 without masters", options(DType::bf16), averaged(rounded, 0.9)},
                        {"muon", options(DType::bf16), {{{"*", Muon{}}, {"*", adamw}}, 1e-3f, 1}},
                        {"fp8", fp8, averaged(adamw, 0.9)}};
  for (const Case& c : cases) {
    if (c.options.fp8 && test_device().type == DeviceType::cuda) continue;  // not on every GPU
    INFO(c.name);
    Scaled model(kSpec), usual(kSpec);
    const ParallelOptions parallel{.strategy = Strategy::zero3, .deterministic = Determinism::on};
    Engine engine(model, ranks(), parallel, c.optimizer, c.options),
        other(usual, ranks(), parallel, c.optimizer, c.options);
    std::vector<float> losses, expected;
    for (int step = 1; step <= 5; ++step) {
      const bool is_finite = step != 2 && step != 3;
      model.factor = is_finite ? 1 : std::nan("");
      const std::uint64_t state = state_checksum(engine, ranks());
      const float loss = step_of(engine).loss();
      if (is_finite) losses.push_back(loss);
      CHECK((state_checksum(engine, ranks()) == state) == !is_finite);
      other.set_progress(step - 1, engine.samples_done() - engine.batch_shape().global_samples());
      other.set_loss_scale({1, 0, engine.loss_scale().skipped});
      if (is_finite) expected.push_back(step_of(other).loss());
    }
    CHECK(engine.loss_scale().skipped == 2);
    CHECK(losses == expected);
    CHECK(state_checksum(engine, ranks()) == state_checksum(other, ranks()));
  }
}

TEST_CASE("an engine that is initialised again is as a new one", "[parallel]") {
  for (const DType dtype : {DType::f32, DType::f16}) {
    const auto model = nn::make_transformer(kSpec), usual = nn::make_transformer(kSpec);
    const OptimizerGroups optimizer(averaged(AdamW{.lr = 1e-3f}, 0.9));
    Engine engine(*model, ranks(), {}, optimizer, options(dtype)),
        fresh(*usual, ranks(), {}, optimizer, options(dtype));
    if (dtype == DType::f16) engine.set_loss_scale({0x1p40f, 0, 0});
    for (int i = 0; i < 3; ++i) step_of(engine);
    engine.initialise();
    CHECK(engine.steps_done() == 0);
    for (Engine* each : {&engine, &fresh}) step_of(*each).norm();
    CHECK(engine.loss_scale().scale == fresh.loss_scale().scale);
    CHECK(state_checksum(engine, ranks()) == state_checksum(fresh, ranks()));
  }
}

TEST_CASE("the results of a step stay those of the step where progress is set in between", "[parallel]") {
  const auto model = nn::make_transformer(kSpec);
  Engine engine(*model, ranks(), {}, AdamW{.lr = 1e-2f}, options(DType::f32));
  const Batch batch = rows_of_step(engine.batch_shape(), 0, kSpec.vocab);
  const StepResult first = engine.step(batch);
  const float loss = first.loss();
  engine.set_progress(0, 0);
  CHECK(engine.step(batch).loss() < loss);
  CHECK(first.loss() == loss);
}

TEST_CASE("a loss that a model computes in the dtype of its parameters is scaled in f32", "[parallel]") {
  struct Mean final : nn::Model {
    Mean()
        : linear(add_unit<nn::Linear>("linear", {.in = 4, .out = 4, .bias = false, .init = nn::Init::normal(0.5f)})) {}
    Tensor loss(const Batch& batch) override {
      const auto body = [this](const Tensor& x) {
        return ops::mean(ops::gelu(linear(ops::cast(x, linear.weight().dtype()))));
      };
      return run(linear, body, batch.inputs);
    }
    nn::Linear& linear;
  };
  const auto losses_in = [](DType dtype) {
    Mean model;
    Engine engine(model, ranks(), {}, AdamW{.lr = 1e-2f}, {.micro_batch = 2, .dtype = dtype, .device = test_device()});
    std::vector<float> losses;
    for (int i = 0; i < 4; ++i)
      losses.push_back(engine.step({Tensor::from(std::vector<float>(8, 1), {2, 4}), {}}).loss());
    CHECK(engine.loss_scale().skipped < 4);
    return losses;
  };
  const std::vector<float> exact = losses_in(DType::f32);
  for (const DType dtype : {DType::bf16, DType::f16}) CHECK(losses_in(dtype)[0] == Approx(exact[0]).epsilon(1e-2));
}

TEST_CASE("a loss scale that no step can have is refused", "[parallel]") {
  const auto model = nn::make_transformer(kSpec);
  Engine engine(*model, ranks(), {}, AdamW{}, options(DType::f16));
  for (const LossScale& scale :
       {LossScale{0}, LossScale{-1}, LossScale{HUGE_VALF}, LossScale{1, -1}, LossScale{1, 0, -1}}) {
    CHECK_THROWS_AS(engine.set_loss_scale(scale), UsageError);
  }
  CHECK(engine.loss_scale().scale == 65536);
}
