// Custom models whose loss() does more than return the head's output, or whose units return their input: gradients are
// derivatives of the value that loss() returns.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/nn/layers.h"
#include "libtrain/parallel/engine.h"
#include "parallel/for_tests.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;
using Catch::Matchers::WithinRel;

namespace {

constexpr Size kVocab = 256, kWidth = 16;  // of the models below

Tensor look_up(const nn::Embedding& table, const Tensor& ids) { return table(ids); }

struct Head final : nn::Module {
  Head() : weight(add_parameter("weight", {kVocab, kWidth}, nn::Init::normal(0.2f))) {}
  nn::Parameter& weight;
};

// Computes two losses, of x and of twice x, and returns the first or the second.
struct Twice final : nn::Model {
  Twice(bool returns_second_, bool computes_both_)
      : embed(add_unit<nn::Embedding>("embed", {.count = kVocab, .width = kWidth, .init = nn::Init::normal(0.5f)})),
        head(add_unit<Head>("head")),
        returns_second(returns_second_),
        computes_both(computes_both_) {}

  Tensor loss(const Batch& batch) override {
    const auto loss_of = [this](const Tensor& x, const Tensor& targets) {
      const auto one = [&](double factor) {
        return ops::head_cross_entropy(ops::scale(x, factor), head.weight.tensor(), targets,
                                       nn::ForwardContext::current().loss);
      };
      if (!computes_both) return one(returns_second ? 2 : 1);
      const Tensor first = one(1), second = one(2);
      return returns_second ? second : first;
    };
    return run(head, loss_of, run(embed, look_up, batch.inputs), batch.targets);
  }

  nn::Embedding& embed;
  Head& head;
  const bool returns_second, computes_both;
};

// Its head is not the last unit: one that adds a penalty, or only looks on, follows.
struct HeadThenPenalty final : nn::Model {
  HeadThenPenalty(bool in_chunks_, bool adds_)
      : embed(add_unit<nn::Embedding>("embed", {.count = kVocab, .width = kWidth, .init = nn::Init::normal(0.5f)})),
        head(add_unit<Head>("head")),
        penalty(
            add_unit<nn::Linear>("penalty", {.in = kWidth, .out = 1, .bias = false, .init = nn::Init::normal(0.3f)})),
        in_chunks(in_chunks_),
        adds(adds_) {}

  Tensor loss(const Batch& batch) override {
    const auto loss_of = [this](const Tensor& x, const Tensor& targets) {
      const Tensor& weight = head.weight.tensor();
      if (!in_chunks) return nn::cross_entropy(ops::linear(x, weight), targets);
      return ops::head_cross_entropy(x, weight, targets, nn::ForwardContext::current().loss);
    };
    const Tensor x = run(embed, look_up, batch.inputs);
    const Tensor loss = run(head, loss_of, x, batch.targets);
    const Tensor term = run(
        penalty, [this](const Tensor& in) { return ops::mean(penalty(in)); }, x);
    return adds ? ops::add(loss, term) : loss;
  }

  nn::Embedding& embed;
  Head& head;
  nn::Linear& penalty;
  const bool in_chunks, adds;
};

// Its block returns its input, which the head uses too.
struct Skipping final : nn::Model {
  Skipping()
      : embed(add_unit<nn::Embedding>("embed", {.count = kVocab, .width = kWidth, .init = nn::Init::normal(0.5f)})),
        dropped(add_block<nn::Linear>("dropped",
                                      {.in = kWidth, .out = kWidth, .bias = false, .init = nn::Init::normal(0.3f)})),
        head(add_unit<nn::Linear>("head",
                                  {.in = kWidth, .out = kVocab, .bias = false, .init = nn::Init::normal(0.2f)})) {}

  Tensor loss(const Batch& batch) override {
    const auto loss_of = [this](const Tensor& x, const Tensor& y, const Tensor& targets) {
      return nn::cross_entropy(head(ops::add(ops::scale(x, 0.5), ops::gelu(y))), targets);
    };
    const Tensor x = run(embed, look_up, batch.inputs);
    const Tensor y = run(
        dropped, [](const Tensor& in) { return in; }, x);
    return run(head, loss_of, x, y, batch.targets);
  }

  nn::Embedding& embed;
  nn::Linear &dropped, &head;
};

// Halves the loss of a step, but not that of the rehearsal on the meta device.
struct ScaledUnseen final : nn::Gpt2 {
  using Gpt2::Gpt2;
  Tensor loss(const Batch& batch) override {
    const Tensor whole = Gpt2::loss(batch);
    return batch.inputs.device().is_meta() ? whole : ops::scale(whole, 0.5);
  }
};

// A block that applies one matrix three times, or three equal ones once each.
struct Repeated final : nn::Model {
  struct Block final : nn::Module {
    explicit Block(bool apart) {
      for (int i = 0; i < 3; ++i) {
        const std::string name = "w" + std::to_string(i);
        if (i == 0 || apart) weights.push_back(&add_parameter(name, {kWidth, kWidth}, nn::Init::constant(0.25f)));
      }
    }
    Tensor forward(const Tensor& x) const {
      Tensor y = x;
      for (std::size_t i = 0; i < 3; ++i) y = ops::gelu(ops::linear(y, weights[i % weights.size()]->tensor()));
      return y;
    }
    std::vector<nn::Parameter*> weights;
  };
  explicit Repeated(bool apart)
      : embed(add_unit<nn::Embedding>("embed", {.count = kVocab, .width = kWidth, .init = nn::Init::normal(0.5f)})),
        block(add_block<Block>("block", apart)),
        head(add_unit<nn::Linear>("head", {.in = kWidth, .out = kVocab, .init = nn::Init::normal(0.2f)})) {}
  Tensor loss(const Batch& batch) override {
    const auto loss_of = [this](const Tensor& x, const Tensor& targets) { return nn::cross_entropy(head(x), targets); };
    return run(head, loss_of, run(block, &Block::forward, run(embed, look_up, batch.inputs)), batch.targets);
  }
  nn::Embedding& embed;
  Block& block;
  nn::Linear& head;
};

// The gradient of unit i's parameter is i + 1 times the sample.
struct Sums final : nn::Model {
  static constexpr Size kUnits = 4, kElements = 33;
  struct Unit final : nn::Module {
    explicit Unit(double factor_)
        : weight(add_parameter("weight", {kElements}, nn::Init::constant(0))), factor(factor_) {}
    Tensor forward(const Tensor& before, const Tensor& sample) const {
      const Tensor& w = weight.tensor();
      const Tensor term = ops::sum(ops::mul(ops::scale(ops::cast(sample, w.dtype()), factor), w));
      return before.defined() ? ops::add(before, term) : term;
    }
    nn::Parameter& weight;
    const double factor;
  };
  Sums() {
    for (Size i = 0; i < kUnits; ++i) {
      units.push_back(&add_unit<Unit>("unit" + std::to_string(i), static_cast<double>(i + 1)));
    }
  }
  Tensor loss(const Batch& batch) override {
    Tensor sum;
    for (Unit* unit : units) sum = run(*unit, &Unit::forward, sum, batch.inputs);
    return sum;
  }
  std::vector<Unit*> units;
};

struct Step {
  float loss, norm;
};

Step step_of(nn::Model& model, const ParallelOptions& parallel, EngineOptions options = {},
             const Group& group = ranks()) {
  options.micro_batch = 2, options.accum = 2, options.seq = 16, options.device = test_device();
  Engine engine(model, group, parallel, AdamW{}, options);
  const StepResult result = engine.step(rows_of_step(engine.batch_shape(), 0, 256));
  return {result.loss(), result.norm()};
}

}  // namespace

TEST_CASE("a multiple of a transformer's loss has that multiple of its gradient", "[parallel]") {
  const nn::TransformerSpec spec = small_spec("gpt-tiny");
  for (const Strategy& strategy : kStrategies) {
    INFO(strategy.name);
    nn::Gpt2 whole(spec);
    Scaled half(spec, 0.5);
    const Step expected = step_of(whole, {.strategy = strategy}), actual = step_of(half, {.strategy = strategy});
    CHECK_THAT(actual.loss, WithinRel(expected.loss / 2, 1e-6f));
    CHECK_THAT(actual.norm, WithinRel(expected.norm / 2, 1e-5f));
  }
  // Alone: a group on GPUs serves nobody after a step that failed.
  const parallel::SeparateAllocationScope separate;  // without it, the step's allocations differ first
  ScaledUnseen unseen(spec);
  CHECK_THROWS_WITH(step_of(unseen, {}, {}, Group()),
                    "loss(): expected the head's loss itself, got another tensor, which no rehearsal has shown");
}

TEST_CASE("a head in chunks has its gradients in a unit that is not the last", "[parallel]") {
  for (const bool adds : {false, true}) {
    for (const Strategy& strategy : kStrategies) {
      INFO(strategy.name << (adds ? ", the loss has another term" : ""));
      HeadThenPenalty logits(false, adds), chunks(true, adds);
      const Step expected = step_of(logits, {.strategy = strategy}), actual = step_of(chunks, {.strategy = strategy});
      CHECK_THAT(actual.loss, WithinRel(expected.loss, 1e-6f));
      CHECK_THAT(actual.norm, WithinRel(expected.norm, 1e-5f));
    }
  }
}

TEST_CASE("a second loss in the last unit that is not returned adds nothing to the gradient", "[parallel]") {
  for (const bool returns_second : {false, true}) {
    for (const Strategy& strategy : kStrategies) {
      INFO(strategy.name << (returns_second ? ", the second" : ", the first"));
      Twice one(returns_second, false), both(returns_second, true);
      const Step expected = step_of(one, {.strategy = strategy}), actual = step_of(both, {.strategy = strategy});
      CHECK_THAT(actual.norm, WithinRel(expected.norm, 1e-5f));
    }
  }
}

TEST_CASE("a recomputed unit that returns its input keeps the gradient of its other users", "[parallel]") {
  for (const Strategy& strategy : kStrategies) {
    INFO(strategy.name);
    Skipping model;
    const Step expected = step_of(model, {.strategy = strategy});
    const Step again = step_of(model, {.strategy = strategy, .recompute = Recompute::full});
    CHECK_THAT(again.norm, WithinRel(expected.norm, 1e-6f));
  }
}

TEST_CASE("a parameter that a unit uses three times gets the sum of three gradients", "[parallel]") {
  const auto gradient = [](bool apart, const ParallelOptions& parallel) {
    Repeated model(apart);
    Engine engine(model, ranks(), parallel, AdamW{}, {.micro_batch = 2, .seq = 16, .device = test_device()});
    engine.step(rows_of_step(engine.batch_shape(), 0, kVocab));
    std::vector<std::vector<float>> gradients;
    for (const nn::NamedParameter& entry : model.all_parameters()) {
      if (entry.name.starts_with("block.")) gradients.push_back(engine.gradient(entry.name).to_vector<float>());
    }
    return gradients;
  };
  const auto parts = gradient(true, {});
  CHECK(parts.size() == 3);
  for (const Strategy& strategy : kStrategies) {
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      INFO(strategy.name << " recompute " << static_cast<int>(recompute));
      const auto sum = gradient(false, {.strategy = strategy, .recompute = recompute});
      CHECK(sum.size() == 1);
      for (std::size_t i = 0; i < sum.at(0).size(); ++i) {
        const float a = parts.at(0)[i], b = parts.at(1)[i], c = parts.at(2)[i];
        // f32 sums in another order
        CHECK(std::abs(sum[0][i] - (a + b + c)) <= 1e-5f * (std::abs(a) + std::abs(b) + std::abs(c)));
        CHECK((a != 0 && b != 0 && c != 0));
      }
    }
  }
}

// In bf16 256 + 1 is 256. Every number here is one of bf16, and every sum one of f32.
TEST_CASE("gradients of micro-batches in bf16 are added in f32, exactly, and buffers that come again hold nothing",
          "[parallel]") {
  const std::vector<float> samples = {256, 1, -256, 2, -512, 3, 512, -4};
  const auto accum = static_cast<Size>(samples.size());
  for (const Strategy& strategy : kStrategies) {
    Sums model;
    Engine engine(model, ranks(), {.strategy = strategy}, AdamW{.lr = 0},
                  {.micro_batch = 1, .accum = accum, .dtype = DType::bf16, .device = test_device()});
    for (const float factor : {1.0f, 3.0f}) {
      std::vector<float> inputs;
      for (const float sample : samples) inputs.insert(inputs.end(), Sums::kElements, factor * sample);
      engine.step({Tensor::from(inputs, {accum, Sums::kElements}), {}});
      for (Size i = 0; i < Sums::kUnits; ++i) {
        const std::vector<float> expected(Sums::kElements, factor * static_cast<float>(2 * (i + 1)) / 8);
        INFO(strategy.name << " unit " << i << " factor " << factor);
        CHECK(engine.gradient("unit" + std::to_string(i) + ".weight").to_vector<float>() == expected);
      }
    }
  }
}

TEST_CASE("a loss of one's own has as a CUDA graph the bits of separate launches", "[parallel]") {
  if (test_device().type != DeviceType::cuda) return;
  const auto curve_of = [](nn::Model& model, const ParallelOptions& parallel, bool graph) {
    Engine engine(model, ranks(), parallel, AdamW{.lr = 1e-3f},
                  {.micro_batch = 2, .accum = 2, .seq = 16, .device = test_device(), .cuda_graph = graph});
    Curve curve;
    for (Size step = 0; step < 5; ++step) {
      const StepResult result = engine.step(rows_of_step(engine.batch_shape(), step, 256));
      curve.losses.push_back(result.loss()), curve.norms.push_back(result.norm());
    }
    curve.state = state_checksum(engine, ranks());
    CHECK(parallel::EngineForTests::graph_launches(engine) == (graph ? 3 : 0));
    return curve;
  };
  const std::vector<std::pair<const char*, std::function<std::unique_ptr<nn::Model>()>>> models{
      {"half", [] { return std::make_unique<Scaled>(small_spec("gpt-tiny"), 0.5); }},
      {"the second of two", [] { return std::make_unique<Twice>(true, true); }},
      {"with a penalty", [] { return std::make_unique<HeadThenPenalty>(true, true); }},
      {"beside a penalty", [] { return std::make_unique<HeadThenPenalty>(true, false); }},
      {"skipping", [] { return std::make_unique<Skipping>(); }}};
  for (const auto& [name, make] : models) {
    for (const Strategy& strategy : kStrategies) {
      INFO(name << ", " << strategy.name);
      const ParallelOptions parallel{
          .strategy = strategy, .recompute = Recompute::full, .deterministic = Determinism::on};
      const auto separate = make(), whole = make();
      CHECK(curve_of(*whole, parallel, true) == curve_of(*separate, parallel, false));
    }
  }
}

TEST_CASE("an engine's end leaves the model to a newer engine", "[parallel]") {
  const EngineOptions options{.micro_batch = 2, .seq = 16, .device = test_device()};
  const parallel::SeparateAllocationScope separate;
  for (const Strategy& strategy : kStrategies) {
    INFO(strategy.name);
    nn::Gpt2 model(small_spec("gpt-tiny"));
    auto engine = std::make_unique<Engine>(model, ranks(), ParallelOptions{.strategy = strategy}, AdamW{}, options);
    engine = std::make_unique<Engine>(model, ranks(), ParallelOptions{.strategy = strategy}, AdamW{}, options);
    CHECK(engine->step(rows_of_step(engine->batch_shape(), 0, 256)).loss() > 0);
  }
}
