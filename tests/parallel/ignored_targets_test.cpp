// Ignored targets: the loss is the mean over all other targets of the global batch, on whichever rank they are.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/error.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

constexpr Size kSeq = 16, kSteps = 6, kGlobalBatch = 6;
constexpr Size kStepWithNone = 3;

// The step kStepWithNone ignores all targets.
Batch partly_ignored(const BatchShape& shape, Size step, Size vocab) {
  const Batch batch = partly_ignored_rows(shape, step, vocab);
  if (step == kStepWithNone) std::fill_n(batch.targets.data<std::int32_t>(), batch.targets.elements(), kIgnoredTarget);
  return batch;
}

struct Steps {
  Curve curve;
  std::vector<double> shares;  // of the targets, those that count
  std::vector<std::uint64_t> states;
};

Steps run_steps(const nn::TransformerSpec& spec, const Group& group, const ParallelOptions& parallel,
                EngineOptions options) {
  options.device = test_device(), options.ignored_targets = true;
  const auto model = nn::make_transformer(spec);
  Engine engine(*model, group, parallel, AdamW{.lr = 1e-3f}, options);
  Steps steps;
  for (Size step = 0; step < kSteps; ++step) {
    const StepResult result = engine.step(partly_ignored(engine.batch_shape(), step, spec.vocab));
    steps.curve.losses.push_back(result.loss()), steps.curve.norms.push_back(result.norm());
    steps.shares.push_back(result.counted_share());
    steps.states.push_back(state_checksum(engine, group));
  }
  steps.curve.state = steps.states.back();
  return steps;
}

}  // namespace

TEST_CASE("ignored targets: any number of ranks gives the mean over the counted ones", "[parallel]") {
  const Group& group = ranks();
  const nn::TransformerSpec spec = small_spec("llama-tiny");
  const Steps alone = run_steps(spec, Group(), {}, {.micro_batch = kGlobalBatch, .accum = 1, .seq = kSeq});
  for (const Size accum : {1, 2}) {
    const Size micro_batch = kGlobalBatch / group.size() / accum;
    if (micro_batch * group.size() * accum != kGlobalBatch) continue;
    const EngineOptions options{.micro_batch = micro_batch, .accum = accum, .seq = kSeq};
    std::optional<Curve> first;
    for (const Strategy& strategy : kStrategies) {
      INFO(strategy.name << " on " << group.size() << " ranks, accum " << accum);
      const Steps steps = run_steps(spec, group, {.strategy = strategy, .deterministic = Determinism::on}, options);
      for (std::size_t i = 0; i < steps.shares.size(); ++i) {
        CHECK(steps.curve.losses[i] == Approx(alone.curve.losses[i]).epsilon(1e-6));
        CHECK(steps.curve.norms[i] == Approx(alone.curve.norms[i]).epsilon(1e-5));
        CHECK(steps.shares[i] == Approx(alone.shares[i]).epsilon(1e-6));
      }
      // Nothing counts, so nothing is learned: neither weights nor moments decay.
      CHECK(steps.curve.losses[kStepWithNone] == 0);
      CHECK(steps.curve.norms[kStepWithNone] == 0);
      CHECK(steps.shares[kStepWithNone] == 0);
      CHECK(steps.states[kStepWithNone] == steps.states[kStepWithNone - 1]);
      CHECK(steps.states[kStepWithNone + 1] != steps.states[kStepWithNone]);
      if (!first) first = steps.curve;
      CHECK(steps.curve == *first);
    }
  }
}

TEST_CASE("ignored targets: a step in which all count has the bits of one that ignores none", "[parallel]") {
  const nn::TransformerSpec spec = small_spec("gpt-tiny");
  for (const DType dtype : {DType::f32, DType::f16}) {
    EngineOptions options{.micro_batch = 2, .accum = 2, .seq = kSeq, .dtype = dtype};
    const Curve expected = train_curve(spec, ranks(), {.deterministic = Determinism::on}, options, kSteps);
    options.ignored_targets = true;
    CHECK(train_curve(spec, ranks(), {.deterministic = Determinism::on}, options, kSteps) == expected);
  }
}

TEST_CASE("ignored targets: steps without one are no updates of an average", "[parallel]") {
  const nn::TransformerSpec spec = small_spec("llama-tiny");
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    INFO(dtype_name(dtype));
    const EngineOptions options{
        .micro_batch = 2, .seq = kSeq, .dtype = dtype, .device = test_device(), .ignored_targets = true};
    const auto model = nn::make_transformer(spec);
    Engine engine(*model, ranks(), {}, averaged(AdamW{.lr = 1e-3f}, 0.999), options);
    if (dtype == DType::f16) engine.set_loss_scale({1, 0, 0});  // so that no step overflows
    engine.step(partly_ignored(engine.batch_shape(), kStepWithNone, spec.vocab));
    CHECK(engine.step(rows_of_step(engine.batch_shape(), 0, spec.vocab)).norm() > 0);
    CHECK(engine.loss_scale().skipped == 1);
    std::map<std::string, std::vector<float>> masters, averages;  // the first average is the weights themselves
    for (const StateRange& range : engine.shard_map().owned) {
      auto& of_kind = range.kind == kMaster ? masters : averages;
      if (range.kind != kMaster && range.kind != kAverage) continue;
      of_kind[range.parameter + " " + std::to_string(range.begin)] = range.values.to_vector<float>();
    }
    CHECK(averages.size() == masters.size());
    CHECK(averages == masters);
    engine.set_loss_scale({engine.loss_scale().scale, 0, 5});
    CHECK(engine.loss_scale().skipped == 5);
  }
}

TEST_CASE("ignored targets: the engine must be told", "[parallel]") {
  const nn::TransformerSpec spec = small_spec("gpt-tiny");
  const auto model = nn::make_transformer(spec);
  Engine engine(*model, ranks(), {}, AdamW{}, {.micro_batch = 2, .seq = kSeq, .device = test_device()});
  const Batch batch = partly_ignored(engine.batch_shape(), kStepWithNone, spec.vocab);
  CHECK_THROWS_AS(engine.step(batch), UsageError);
  engine.step(rows_of_step(engine.batch_shape(), 0, spec.vocab));  // still sound
}
