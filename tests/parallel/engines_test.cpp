// Several engines in one process, in one thread and in two: each computes as if it were alone.
#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <vector>

#include "libtrain/device/context.h"
#include "libtrain/nn/layers.h"
#include "libtrain/parallel/engine.h"
#include "parallel/for_tests.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

bool on_cuda() { return test_device().type == DeviceType::cuda; }

// Records the kernel settings of each pass.
struct Watched final : nn::Gpt2 {
  explicit Watched(const nn::TransformerSpec& spec) : Gpt2(spec) {}
  Tensor loss(const Batch& batch) override {
    seen.push_back(Context::current().kernels);
    return Gpt2::loss(batch);
  }
  std::vector<KernelSettings> seen;
};

// Gives a notice in each pass.
struct Noticing final : nn::Gpt2 {
  using Gpt2::Gpt2;
  Tensor loss(const Batch& batch) override {
    Context::current().give_notice("a slower kernel runs");
    return Gpt2::loss(batch);
  }
};

// Has its linear layers outside of blocks.
struct Blockless final : nn::Model {
  struct Embed final : nn::Module {
    Embed() : table(add<nn::Embedding>("table", {.count = 16, .width = 32, .init = nn::Init::normal(0.5f)})) {}
    nn::Embedding& table;
  };
  Blockless()
      : embed(add_unit<Embed>("embed")),
        head(add_unit<nn::Linear>("head", {.in = 32, .out = 16, .init = nn::Init::normal(0.1f)})) {}
  Tensor loss(const Batch& batch) override {
    const Tensor x = run(
        embed, [this](const Tensor& ids) { return embed.table(ids); }, batch.inputs);
    const auto loss_of = [this](const Tensor& y, const Tensor& targets) { return nn::cross_entropy(head(y), targets); };
    return run(head, loss_of, x, batch.targets);
  }
  Embed& embed;
  nn::Linear& head;
};

struct EngineRun {
  Watched model;
  Engine engine;
  Curve curve;

  EngineRun(bool deterministic, float lr, float dropout, bool graph)
      : model([&] {
          nn::TransformerSpec spec = small_spec("gpt-tiny");
          spec.dropout = dropout;
          return spec;
        }()),
        engine(model, Group(), {.deterministic = deterministic ? Determinism::on : Determinism::off}, AdamW{.lr = lr},
               {.micro_batch = 2,
                .accum = 2,
                .seq = 16,
                .device = test_device(),
                .cuda_graph = graph,
                .tf32 = !deterministic && on_cuda()}) {}

  void step(Size n) {
    const StepResult result = engine.step(rows_of_step(engine.batch_shape(), n, 256));
    curve.losses.push_back(result.loss());
    curve.norms.push_back(result.norm());
    if (n % 3 == 2)
      curve.losses.push_back(static_cast<float>(mean_loss(engine.evaluate(synthetic_batch(7, 2, 16, 256)))));
  }
};

constexpr Size kSteps = 9;

void check_settings(const EngineRun& run, const KernelSettings& expected) {
  Size differing = 0;
  for (const KernelSettings& settings : run.model.seen) differing += settings != expected;
  CHECK(differing == 0);
  // A graph runs the model's code while it is captured, not when it is launched.
  CHECK(run.model.seen.size() > (parallel::EngineForTests::graph_launches(run.engine) > 0 ? 2 : 2 * kSteps));
}

}  // namespace

TEST_CASE("engines: two of one process compute as if each were alone", "[parallel]") {
  const bool graph = GENERATE(false, true);
  if (graph && !on_cuda()) return;
  const float dropout = 0.1f;
  std::array<Curve, 2> alone;
  {
    EngineRun first(true, 1e-3f, dropout, graph), second(false, 3e-3f, 0, graph);
    for (Size n = 0; n < kSteps; ++n) first.step(n);
    for (Size n = 0; n < kSteps; ++n) second.step(n);
    alone = {first.curve, second.curve};
    CHECK_FALSE(alone[0] == alone[1]);
    CHECK((parallel::EngineForTests::graph_launches(first.engine) > 0) == graph);
  }
  SECTION("by turns in one thread") {
    EngineRun first(true, 1e-3f, dropout, graph), second(false, 3e-3f, 0, graph);
    for (Size n = 0; n < kSteps; ++n) first.step(n), second.step(n);
    CHECK(first.curve == alone[0]);
    CHECK(second.curve == alone[1]);
    check_settings(first, {.deterministic = true}), check_settings(second, {.tf32 = on_cuda()});
  }
  SECTION("in two threads at a time") {
    EngineRun first(true, 1e-3f, dropout, graph), second(false, 3e-3f, 0, graph);
    std::thread other([&] {
      for (Size n = 0; n < kSteps; ++n) second.step(n);
    });
    for (Size n = 0; n < kSteps; ++n) first.step(n);
    other.join();
    CHECK(first.curve == alone[0]);
    CHECK(second.curve == alone[1]);
    check_settings(first, {.deterministic = true}), check_settings(second, {.tf32 = on_cuda()});
  }
  SECTION("one made and rehearsed while the other steps") {
    EngineRun first(true, 1e-3f, dropout, graph);
    Curve curve;
    std::thread other([&] {
      EngineRun second(false, 3e-3f, 0, graph);
      for (Size n = 0; n < kSteps; ++n) second.step(n);
      curve = second.curve;
    });
    for (Size n = 0; n < kSteps; ++n) first.step(n);
    other.join();
    CHECK(first.curve == alone[0]);
    CHECK(curve == alone[1]);
  }
  CHECK(Context::current().kernels == KernelSettings{});
}

TEST_CASE("engine: a notice says that no matmul of a step is in FP8", "[parallel]") {
  const auto is_told = [](nn::Model& model, Size seq) {
    Engine engine(model, Group(), {}, AdamW{},
                  {.micro_batch = 1, .seq = seq, .dtype = DType::bf16, .device = test_device(), .fp8 = true});
    std::vector<std::string> notices;
    const ContextMemberScope<&Context::notices> scope(&notices);
    const auto is_noticed = [&] {
      return std::ranges::any_of(
          notices, [](const std::string& notice) { return notice.starts_with("no matmul of a step is in FP8"); });
    };
    engine.evaluate(synthetic_batch(0, 1, 15, 16));  // its sizes say nothing about steps
    CHECK(!is_noticed());
    engine.step(rows_of_step(engine.batch_shape(), 0, 16));
    return is_noticed();
  };
  nn::Gpt2 gpt2(small_spec("gpt-tiny"));
  CHECK(!is_told(gpt2, 16));
  CHECK(is_told(gpt2, 15));
  Blockless blockless;
  CHECK(is_told(blockless, 16));
}

TEST_CASE("engine: a notice from inside a step reaches the caller, once", "[parallel]") {
  Noticing model(small_spec("gpt-tiny"));
  Engine engine(model, Group(), {}, AdamW{}, {.micro_batch = 2, .accum = 2, .seq = 16, .device = test_device()});
  std::vector<std::string> notices;
  const ContextMemberScope<&Context::notices> scope(&notices);
  for (Size n = 0; n < 2; ++n) engine.step(rows_of_step(engine.batch_shape(), n, 256));
  CHECK(notices == std::vector<std::string>{"a slower kernel runs"});
}
