// At a fixed world size, every strategy gives the same bits, with and without recomputation.
#include "libtrain/nn/layers.h"
#include "libtrain/ops/ops.h"
#include "libtrain/parallel/engine.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

constexpr Size kSteps = 3;

void check_all_equal(const std::string& preset) {
  const Group& group = ranks();
  const nn::TransformerSpec spec = small_spec(preset);
  // How dtypes, accumulation and recomputation interact does not depend on the number of ranks. Two ranks, and any
  // number of GPUs, run all; three and more on the CPU run some.
  const bool is_slow = test_device() == kCpu && group.size() > 2;
  std::vector<float> in_bf16;
  for (const auto& [dtype, fp8] :
       {std::pair{DType::f32, false}, {DType::bf16, false}, {DType::f16, false}, {DType::bf16, true}}) {
    const bool is_narrow = dtype != DType::f32 && !fp8;
    for (const Size accum : {1, 2}) {
      if (is_slow && (accum == 1 || is_narrow)) continue;
      const EngineOptions options{.micro_batch = 2, .accum = accum, .seq = 16, .dtype = dtype, .fp8 = fp8};
      const Curve expected =
          train_curve(spec, group, {.strategy = Strategy::ddp, .deterministic = Determinism::on}, options, kSteps);
      // The model learns: random tokens of a small vocabulary become slightly predictable within a few steps.
      CHECK(expected.losses[0] == Approx(std::log(static_cast<double>(spec.vocab))).epsilon(0.02));
      CHECK(expected.losses[0] != expected.losses[1]);
      if (dtype == DType::bf16 && !fp8) in_bf16 = expected.losses;
      if (fp8 && !is_slow) CHECK(expected.losses != in_bf16);
      for (const Strategy& strategy : kStrategies) {
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
          for (const Size every : {1, 2}) {
            if (every == 2 && recompute == Recompute::none) continue;
            if (is_slow && (recompute == Recompute::selective || (recompute == Recompute::full && every == 1)))
              continue;
            const ParallelOptions parallel{.strategy = strategy,
                                           .recompute = recompute,
                                           .recompute_every = every,
                                           .deterministic = Determinism::on};
            const Curve actual = train_curve(spec, group, parallel, options, kSteps);
            INFO(preset << " " << strategy.name << " recompute " << static_cast<int>(recompute) << " every " << every
                        << " " << dtype_name(dtype) << (fp8 ? " fp8" : "") << " accum " << accum << " ranks "
                        << group.size());
            CHECK(actual == expected);
          }
        }
      }
    }
  }
}

// A model with one unit of 25 parameters, more than one update call can round.
class Stack final : public nn::Model {
 public:
  static constexpr Size kVocab = 40, kWidth = 9;
  struct Body final : nn::Module {
    Body() : table(add_parameter("table", {kVocab, kWidth}, nn::Init::normal(0.1f))) {
      for (int i = 0; i < 12; ++i) {
        layers.push_back(
            &add<nn::Linear>("l" + std::to_string(i), {.in = kWidth, .out = kWidth, .init = nn::Init::normal(0.05f)}));
      }
    }
    nn::Parameter& table;
    std::vector<nn::Linear*> layers;
  };
  Stack() : body_(add_unit<Body>("body")) {}

  Tensor loss(const Batch& batch) override {
    const auto loss_of = [this](const Tensor& ids, const Tensor& targets) {
      Tensor x = ops::embedding(body_.table.tensor(), ids);
      for (nn::Linear* layer : body_.layers) x = (*layer)(x, x);
      return ops::head_cross_entropy(x, body_.table.tensor(), targets);
    };
    return run(body_, loss_of, batch.inputs, batch.targets);
  }

 private:
  Body& body_;
};

// Blocks whose norms and activations go to other operations than linear layers, to several at once, or out of the
// block.
class Mixed final : public nn::Model {
 public:
  static constexpr Size kVocab = 48, kWidth = 32;
  struct Embed final : nn::Module {
    Embed() : table(add<nn::Embedding>("table", {.count = kVocab, .width = kWidth, .init = nn::Init::normal(0.5f)})) {}
    nn::Embedding& table;
  };
  struct Block final : nn::Module {
    Block()
        : first(add<nn::LayerNorm>("first", {.width = kWidth})),
          last(add<nn::RmsNorm>("last", {.width = kWidth})),
          up(add<nn::Linear>("up", {.in = kWidth, .out = 2 * kWidth, .init = nn::Init::normal(0.2f)})),
          down(add<nn::Linear>("down", {.in = kWidth, .out = kWidth, .init = nn::Init::normal(0.2f)})),
          mix(add<nn::Linear>("mix", {.in = kWidth, .out = kWidth, .bias = false, .init = nn::Init::normal(0.2f)})) {}
    Tensor forward(const Tensor& x) const {
      const Tensor h = first(ops::gelu(x));
      const Tensor gated = ops::swiglu(up(h));
      const Tensor a = ops::gelu(down(gated, h));
      const Tensor still = Tensor::empty(a.shape(), a.dtype(), a.device());  // without a gradient
      copy(still, a);
      const Tensor b = ops::add(ops::mul(a, gated), ops::mul(ops::gelu(mix(a)), still));
      return last(ops::add(x, ops::add(mix(ops::relu(b)), h)));
    }
    nn::LayerNorm& first;
    nn::RmsNorm& last;
    nn::Linear &up, &down, &mix;
  };

  Mixed() : embed_(add_unit<Embed>("embed")) {
    for (int i = 0; i < 2; ++i) blocks_.push_back(&add_block<Block>("blocks." + std::to_string(i)));
    head_ = &add_unit<nn::Linear>("head", {.in = kWidth, .out = kVocab, .init = nn::Init::normal(0.1f)});
  }

  Tensor loss(const Batch& batch) override {
    Tensor x = run(
        embed_, [this](const Tensor& ids) { return embed_.table(ids); }, batch.inputs);
    for (Block* block : blocks_) x = run(*block, &Block::forward, x);
    const auto loss_of = [this](const Tensor& y, const Tensor& targets) {
      return nn::cross_entropy((*head_)(y), targets);
    };
    return run(*head_, loss_of, x, batch.targets);
  }

 private:
  Embed& embed_;
  std::vector<Block*> blocks_;
  nn::Linear* head_ = nullptr;
};

// Momentum SGD, as a CPU loop.
Optimizer sgd() {
  Optimizer momentum{.name = "sgd", .states = {"momentum"}, .betas = {0.9f}, .lr = 0.05};
  momentum.update = [](const UpdateRange& range) {
    if (range.weights.device().is_meta() || range.numbers->skip != 0) return;
    float *const w = range.weights.data<float>(), *const m = range.states[0].data<float>();
    for (Size i = 0; i < range.weights.elements(); ++i) {
      m[i] = 0.9f * m[i] + 0.1f * range.numbers->gradient_scale * range.gradient.data<float>()[i];
      w[i] -= range.numbers->lr * (m[i] / range.numbers->bias[0] + (i < range.decayed ? 0.01f * w[i] : 0.0f));
    }
    if (range.copy.defined()) copy(range.copy, range.weights);
  };
  return momentum;
}

}  // namespace

TEST_CASE("gpt: DDP = ZeRO-1 = ZeRO-2 = ZeRO-3, bit by bit", "[parallel]") { check_all_equal("gpt-tiny"); }
TEST_CASE("llama: DDP = ZeRO-1 = ZeRO-2 = ZeRO-3, bit by bit", "[parallel]") { check_all_equal("llama-tiny"); }

TEST_CASE("heads of 64 channels: every strategy and recomputation gives the same bits", "[parallel]") {
  if (test_device() == kCpu) return;  // which computes them as it does others; on GPUs they have kernels of their own
  for (const char* const preset : {"gpt-tiny", "llama-tiny"}) {
    nn::TransformerSpec spec = small_spec(preset);
    spec.heads = 2, spec.kv_heads = spec.family == "gpt2" ? 2 : 1, spec.max_seq = 512;
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const EngineOptions options{.micro_batch = 2, .seq = 512, .dtype = dtype};
      const auto train = [&](const Strategy& strategy, Recompute recompute) {
        const ParallelOptions parallel{.strategy = strategy, .recompute = recompute, .deterministic = Determinism::on};
        return train_curve(spec, ranks(), parallel, options, 3);
      };
      INFO(preset << " " << dtype_name(dtype));
      const Curve expected = train(Strategy::ddp, Recompute::none);
      CHECK(expected.losses[0] != expected.losses[1]);
      for (const Strategy& strategy : kStrategies) CHECK(train(strategy, Recompute::none) == expected);
      for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
        CHECK(train(Strategy::zero3, recompute) == expected);
      }
    }
  }
}

TEST_CASE("a model with dropout gives the same bits too", "[parallel]") {
  nn::TransformerSpec spec = small_spec("gpt-tiny");
  spec.dropout = 0.1;
  const EngineOptions options{.micro_batch = 1, .accum = 2, .seq = 16};
  const Group& group = ranks();
  const Curve expected =
      train_curve(spec, group, {.strategy = Strategy::ddp, .deterministic = Determinism::on}, options, 3);
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    const ParallelOptions parallel{
        .strategy = Strategy::zero3, .recompute = recompute, .deterministic = Determinism::on};
    CHECK(train_curve(spec, group, parallel, options, 3) == expected);
  }
}

TEST_CASE("documents: every strategy and recomputation gives the same bits", "[parallel]") {
  for (const std::string preset : {"gpt-tiny", "llama-tiny"}) {
    const nn::TransformerSpec spec = small_spec(preset);
    const EngineOptions options{.micro_batch = 2, .accum = 2, .seq = 16};
    const auto train = [&](const Strategy& strategy, Recompute recompute, auto batch_of_step) {
      const ParallelOptions parallel{.strategy = strategy, .recompute = recompute, .deterministic = Determinism::on};
      return train_curve(spec, ranks(), parallel, options, 2, AdamW{}, batch_of_step);
    };
    const Curve expected = train(Strategy::ddp, Recompute::none, documents_of_step);
    CHECK_FALSE(expected == train(Strategy::ddp, Recompute::none, rows_of_step));
    for (const Strategy& strategy : kStrategies) CHECK(train(strategy, Recompute::full, documents_of_step) == expected);
    CHECK(train(Strategy::zero3, Recompute::selective, documents_of_step) == expected);
  }
}

TEST_CASE("moments in bf16, weights without masters, an average: every strategy gives the same bits", "[parallel]") {
  const nn::TransformerSpec spec = small_spec("llama-tiny");
  const EngineOptions options{.micro_batch = 2, .seq = 16, .dtype = DType::bf16};
  const auto train = [&](const Strategy& strategy, const Optimizer& optimizer) {
    return train_curve(spec, ranks(), {.strategy = strategy, .deterministic = Determinism::on}, options, kSteps,
                       optimizer);
  };
  const Curve usual = train(Strategy::ddp, AdamW{});
  for (const Optimizer& optimizer : {Optimizer(AdamW{.state_dtype = DType::bf16}), Optimizer(AdamW{.masters = false}),
                                     averaged(AdamW{.state_dtype = DType::bf16, .masters = false}, 0.9)}) {
    const Curve expected = train(Strategy::ddp, optimizer);
    CHECK_FALSE(expected == usual);
    CHECK(expected.losses.back() == Approx(usual.losses.back()).epsilon(0.01));
    for (const Strategy& strategy : kStrategies) CHECK(train(strategy, optimizer) == expected);
  }
}

TEST_CASE("Muon: every strategy gives the same bits", "[parallel]") {
  nn::TransformerSpec uneven = small_spec("llama-tiny");  // q, k and v have two shapes, and parts end within matrices
  uneven.width = 24, uneven.heads = 4, uneven.kv_heads = 2, uneven.ffn = 37;
  for (const nn::TransformerSpec& spec : {small_spec("gpt-tiny"), uneven}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const EngineOptions options{.micro_batch = 2, .seq = 16, .dtype = dtype};
      const bool narrow = dtype == DType::bf16;
      const Optimizer adamw = averaged(AdamW{.masters = !narrow}, 0.9);
      const auto row = [&](float weight_decay) {
        return averaged(
            Muon{.weight_decay = weight_decay, .state_dtype = narrow ? DType::bf16 : DType::f32, .masters = !narrow},
            0.9);
      };
      const OptimizerGroups muon({{"blocks.*.ffn*", row(0)}, {"*", row(0.1f)}, {"*", adamw}}, 1e-3, 1.0);
      const auto train = [&](const Strategy& strategy, const OptimizerGroups& groups, int shard_size = 0) {
        return train_curve(spec, ranks(),
                           {.strategy = strategy, .shard_size = shard_size, .deterministic = Determinism::on}, options,
                           kSteps, groups);
      };
      INFO(spec.family << " " << dtype_name(dtype));
      const Curve expected = train(Strategy::ddp, muon);
      CHECK(expected.losses[0] != expected.losses[1]);
      CHECK_FALSE(expected == train(Strategy::ddp, OptimizerGroups({{"*", adamw}}, 1e-3, 1.0)));
      for (const Strategy& strategy : kStrategies) CHECK(train(strategy, muon) == expected);
      if (ranks().size() == 4) {
        const Curve hybrid = train(Strategy::zero1, muon, 2);
        CHECK(train(Strategy::zero2, muon, 2) == hybrid);
        CHECK(train(Strategy::zero3, muon, 2) == hybrid);
      }
    }
  }
}

TEST_CASE("an optimizer from outside the library: every strategy gives the same bits", "[parallel]") {
  if (test_device() != kCpu) return;  // its loop runs on the CPU
  const nn::TransformerSpec spec = small_spec("gpt-tiny");
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const EngineOptions options{.micro_batch = 2, .seq = 16, .dtype = dtype};
    const auto train = [&](const Strategy& strategy) {
      return train_curve(spec, ranks(), {.strategy = strategy, .deterministic = Determinism::on}, options, kSteps,
                         sgd());
    };
    const Curve expected = train(Strategy::ddp);
    CHECK(expected.losses[0] != expected.losses[1]);
    for (const Strategy& strategy : kStrategies) CHECK(train(strategy) == expected);
  }
}

TEST_CASE("groups with optimizers and rates of their own: every strategy gives the same bits", "[parallel]") {
  if (test_device() != kCpu) return;  // one of the loops runs on the CPU
  const nn::TransformerSpec spec = small_spec("gpt-tiny");
  const EngineOptions options{.micro_batch = 2, .seq = 16};
  const auto train = [&](const Strategy& strategy, const OptimizerGroups& groups) {
    return train_curve(spec, ranks(), {.strategy = strategy, .deterministic = Determinism::on}, options, kSteps,
                       groups);
  };
  const auto groups = [](double scale) {
    return OptimizerGroups({{"blocks.*.norm*", AdamW{.weight_decay = 0}, scale},
                            {"blocks.*.ffn.up.*", sgd()},
                            {"embedding*", AdamW{}, 0.5},
                            {"*", AdamW{}}},
                           3e-3, 1.0);
  };
  const Curve expected = train(Strategy::ddp, groups(2));
  CHECK_FALSE(expected == train(Strategy::ddp, groups(3)));
  for (const Strategy& strategy : kStrategies) CHECK(train(strategy, groups(2)) == expected);
  // Groups without differences act as one.
  const OptimizerGroups same({{"blocks.*", AdamW{.lr = 3e-3f}}, {"*", AdamW{.lr = 3e-3f}}}, 3e-3, 1.0);
  CHECK(train(Strategy::zero2, same) == train(Strategy::zero2, AdamW{.lr = 3e-3f}));
}

TEST_CASE("frozen parameters: every strategy and recomputation gives the same bits", "[parallel]") {
  const std::vector<std::vector<std::string>> cases = {
      {"embedding*"}, {"embedding*", "blocks.0.*"}, {"blocks.0.*"}, {"*norm*", "*.bias"}, {"blocks.*", "embedding*"}};
  for (const char* const preset : {"gpt-tiny", "llama-tiny"}) {  // tied and not
    const nn::TransformerSpec spec = small_spec(preset);
    for (const std::vector<std::string>& patterns : cases) {
      if (std::string(preset) == "llama-tiny" && patterns.size() == 2 && patterns[1] == "*.bias")
        continue;  // it has no biases
      OptimizerGroups optimizer(AdamW{.lr = 1e-3f});
      optimizer.frozen = patterns;
      const EngineOptions options{.micro_batch = 1, .accum = 2, .seq = 16, .dtype = DType::bf16};
      const auto train = [&](const Strategy& strategy, Recompute recompute) {
        const ParallelOptions parallel{.strategy = strategy, .recompute = recompute, .deterministic = Determinism::on};
        return train_curve(spec, ranks(), parallel, options, 3, optimizer);
      };
      INFO(preset << " " << patterns.front());
      const Curve expected = train(Strategy::ddp, Recompute::none);
      CHECK(expected.losses[0] != expected.losses[1]);
      for (const Strategy& strategy : kStrategies) CHECK(train(strategy, Recompute::none) == expected);
      for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
        CHECK(train(Strategy::zero3, recompute) == expected);
      }
    }
  }
}

TEST_CASE("more parameters in a unit than one call rounds: every strategy gives the same bits", "[parallel]") {
  const auto train = [&](const Strategy& strategy) {
    Stack model;
    const EngineOptions options{.micro_batch = 2, .seq = 8, .dtype = DType::bf16, .device = test_device()};
    Engine engine(model, ranks(), {.strategy = strategy, .deterministic = Determinism::on},
                  AdamW{.lr = 0.01f, .state_dtype = DType::bf16, .masters = false}, options);
    Curve curve;
    for (Size step = 0; step < kSteps; ++step) {
      curve.losses.push_back(engine.step(rows_of_step(engine.batch_shape(), step, Stack::kVocab)).loss());
    }
    curve.state = state_checksum(engine, ranks());
    return curve;
  };
  const Curve expected = train(Strategy::ddp);
  CHECK(expected.losses.front() != expected.losses.back());
  for (const Strategy& strategy : kStrategies) CHECK(train(strategy) == expected);
}

TEST_CASE("hybrid sharding with frozen parameters, groups, bf16 moments and no masters", "[parallel]") {
  const Group& group = ranks();
  if (group.size() != 4) return;
  OptimizerGroups optimizer(
      {{"blocks.*.norm*", averaged(AdamW{.weight_decay = 0, .state_dtype = DType::bf16, .masters = false}, 0.9), 2},
       {"*", averaged(AdamW{.state_dtype = DType::bf16, .masters = false}, 0.9)}},
      1e-3, 1.0);
  optimizer.frozen = {"embedding*", "blocks.1.*"};
  const EngineOptions options{.micro_batch = 1, .seq = 16, .dtype = DType::bf16};
  const auto train = [&](const Strategy& strategy) {
    return train_curve(small_spec("llama-tiny"), group,
                       {.strategy = strategy, .shard_size = 2, .deterministic = Determinism::on}, options, 3,
                       optimizer);
  };
  const Curve expected = train(Strategy::zero1);
  CHECK(expected.losses.front() != expected.losses.back());
  CHECK(train(Strategy::zero2) == expected);
  CHECK(train(Strategy::zero3) == expected);
}

TEST_CASE("equality: blocks that use norms and activations in every way, in bf16 and FP8", "[parallel]") {
  std::vector<Curve> curves;
  for (const bool fp8 : {false, true}) {
    std::optional<Curve> expected;
    for (const Strategy& strategy : kStrategies) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        CAPTURE(fp8, strategy.name, static_cast<int>(recompute));
        Mixed model;
        const EngineOptions options{
            .micro_batch = 2, .accum = 2, .seq = 16, .dtype = DType::bf16, .device = test_device(), .fp8 = fp8};
        Engine engine(model, ranks(), {.strategy = strategy, .recompute = recompute, .deterministic = Determinism::on},
                      AdamW{.lr = 1e-3f}, options);
        Curve curve;
        for (Size step = 0; step < kSteps; ++step) {
          const StepResult result = engine.step(rows_of_step(engine.batch_shape(), step, Mixed::kVocab));
          curve.losses.push_back(result.loss()), curve.norms.push_back(result.norm());
        }
        curve.state = state_checksum(engine, ranks());
        if (!expected) expected = curve;
        CHECK(curve == *expected);
        CHECK(std::isfinite(engine.evaluate(rows_of_step(engine.batch_shape(), 0, Mixed::kVocab))[0].loss));
      }
    }
    curves.push_back(*expected);
  }
  CHECK(curves[0].losses != curves[1].losses);
}
