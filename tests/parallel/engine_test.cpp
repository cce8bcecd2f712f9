// Layouts, uneven shards, custom models, waits, and inputs that the engine refuses.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "comm/value_exchange.h"
#include "libtrain/error.h"
#include "libtrain/nn/layers.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/profile/timeline.h"
#include "optim/least_loaded.h"
#include "parallel/exposed_wait.h"
#include "parallel/layout.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::parallel;
using namespace lt_test;

namespace {

// Not a transformer: two layers on vectors, with a parameter of three elements and an unused one.
struct Regression : nn::Model {
  struct Layer : nn::Module {
    Layer(Size in, Size out)
        : linear(add<nn::Linear>("linear", {.in = in, .out = out, .init = nn::Init::normal(0.3f)})) {}
    nn::Linear& linear;
  };
  struct Output : nn::Module {
    explicit Output(Size in)
        : linear(add<nn::Linear>("linear", {.in = in, .out = 1, .init = nn::Init::normal(0.3f)})),
          scale(add_parameter("scale", {1}, nn::Init::constant(1))),
          unused(add_parameter("unused", {3}, nn::Init::constant(5))) {}
    nn::Linear& linear;
    nn::Parameter &scale, &unused;
  };

  Regression()
      : first(add_block<Layer>("first", 5, 7)),
        second(add_block<Layer>("second", 7, 7)),
        output(add_unit<Output>("output", 7)) {}

  // Without targets it learns the first input.
  Tensor loss(const Batch& batch) override {
    const Tensor x = batch.inputs, y = batch.targets.defined() ? batch.targets : ops::slice(x, 1, 0, 1);
    const Tensor h = run(
        first, [this](const Tensor& in) { return ops::gelu(first.linear(in)); }, x);
    const Tensor g = run(
        second, [this](const Tensor& in) { return ops::silu(second.linear(in)); }, h);
    const auto loss_of = [this](const Tensor& in, const Tensor& wanted) {
      const Tensor error = ops::add(ops::mul(output.linear(in), output.scale.tensor()), ops::scale(wanted, -1));
      return ops::mean(ops::mul(error, error));
    };
    return run(output, loss_of, g, y);
  }

  Layer &first, &second;
  Output& output;
};

// Weights of 7 x 15, 15 x 3 and 16 x 17 elements, one in each unit. No number of ranks from 2 on divides all of them.
struct Uneven : nn::Model {
  Uneven()
      : first(add_unit<nn::Linear>("first", options(15, 7))),
        second(add_unit<nn::Linear>("second", options(3, 15))),
        third(add_unit<nn::Linear>("third", options(17, 16))) {}
  static nn::Linear::Options options(Size in, Size out) {
    return {.in = in, .out = out, .bias = false, .init = nn::Init::normal(0.3f)};
  }
  Tensor loss(const Batch& batch) override {
    const auto apply = [](const nn::Linear& linear, const Tensor& x) { return ops::silu(linear(x)); };
    const Tensor x = batch.inputs;
    const Tensor h = run(first, apply, first, ops::slice(x, 1, 0, 15));
    const Tensor g = run(second, apply, second, ops::slice(h, 1, 2, 3));
    const auto loss_of = [this](const Tensor& a, const Tensor& b) {
      const Tensor y = third(ops::concat({a, b}, 1));
      return ops::mean(ops::mul(y, y));
    };
    return run(third, loss_of, g, ops::slice(x, 1, 15, 2));
  }
  nn::Linear &first, &second, &third;
};

// Its loss has a term of `sometimes` on one rank alone.
struct Unequal : nn::Model {
  struct Unit : nn::Module {
    Unit()
        : always(add_parameter("always", {5}, nn::Init::constant(1))),
          sometimes(add_parameter("sometimes", {3}, nn::Init::constant(1))) {}
    nn::Parameter &always, &sometimes;
  };
  explicit Unequal(bool uses_both_) : unit(add_unit<Unit>("unit")), uses_both(uses_both_) {}
  Tensor loss(const Batch& batch) override {
    const auto loss_of = [this](const Tensor& x) {
      const Tensor usual = ops::mean(ops::mul(x, unit.always.tensor()));
      return uses_both ? ops::add(usual, ops::sum(unit.sometimes.tensor())) : usual;
    };
    return run(unit, loss_of, batch.inputs);
  }
  Unit& unit;
  const bool uses_both;
};

Batch regression_batch(Size first, Size count) {
  std::vector<float> x, y;
  for (Size i = first; i < first + count; ++i) {
    float sum = 0;
    for (Size k = 0; k < 5; ++k) {
      const float value = 2 * uniform_from(philox_word(7, static_cast<std::uint64_t>(i * 8 + k))) - 1;
      x.push_back(value);
      sum += value;
    }
    y.push_back(std::sin(sum));
  }
  return {Tensor::from(x, {count, 5}), Tensor::from(y, {count, 1})};
}

}  // namespace

TEST_CASE("terms that a model's loss does not take are refused", "[parallel]") {
  for (const char* name : {"z_loss", "label_smoothing"}) {
    EngineOptions options{.micro_batch = 2, .seq = 5};
    (name == std::string("z_loss") ? options.z_loss : options.label_smoothing) = 0.5;
    Regression model;
    Engine engine(model, Group(), {}, AdamW{}, options);
    CHECK_THROWS_WITH(
        engine.step(regression_batch(0, 2)),
        name + std::string(": expected 0 with a model whose loss() does not call nn::cross_entropy, got 0.5"));
  }
}

TEST_CASE("layout: decayed first, aligned, equal shards", "[parallel]") {
  Regression model;
  for (const int ranks : {1, 2, 3, 4, 7}) {
    const UnitLayout layout("output", model.units()[2].module->parameters("output"), ranks);
    REQUIRE(layout.ranges().size() == 4);
    CHECK(layout.ranges()[0].name == "output.linear.weight");
    CHECK(layout.decayed() == 64);
    for (const UnitLayout::Range& range : layout.ranges()) CHECK(range.begin % UnitLayout::kAlignment == 0);
    CHECK(layout.padded() % (ranks * UnitLayout::kAlignment) == 0);
    Size gaps = 0, parameters = 0;
    layout.for_each_gap([&](Size begin, Size end) { gaps += end - begin; });
    for (const UnitLayout::Range& range : layout.ranges()) parameters += range.elements;
    CHECK(gaps + parameters == layout.padded());
    CHECK(parameters == 7 + 1 + 1 + 3);
  }
}

TEST_CASE("owners of matrices: the largest first, each to the rank that has least", "[parallel]") {
  optim::LeastLoaded owners(3);
  CHECK(owners.assign({1, 3, 3, 2}) == std::vector<int>{2, 0, 1, 2});
  CHECK(owners.assign({1, 1, 4}) == std::vector<int>{1, 2, 0});  // 3, 3, 3 so far
  CHECK(owners.assign({}).empty());
  CHECK(optim::LeastLoaded(1).assign({1, 2}) == std::vector<int>{0, 0});
}

TEST_CASE("a model from general operations trains under every strategy, with shards that hold nothing", "[parallel]") {
  const Group& group = world().group();
  std::vector<float> expected;
  for (const Strategy& strategy : kStrategies) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      Regression model;
      Engine engine(model, group, {.strategy = strategy, .recompute = recompute, .deterministic = Determinism::on},
                    AdamW{.lr = 0.01f, .weight_decay = 0.01f}, {.micro_batch = 12 / group.size()});
      std::vector<float> losses;
      for (Size step = 0; step < 60; ++step) {
        const Size rows = engine.batch_shape().samples();
        losses.push_back(engine.step(regression_batch(group.rank() * rows, rows)).loss());
      }
      if (expected.empty()) expected = losses;
      INFO(strategy.name << " recompute " << static_cast<int>(recompute));
      CHECK(losses == expected);
      CHECK(losses.back() < 0.2f * losses.front());
    }
  }
}

TEST_CASE("a parameter that no operation used keeps its value: its gradient is zero, not garbage", "[parallel]") {
  for (const Strategy& strategy : kStrategies) {
    Regression model;
    Engine engine(model, world().group(), {.strategy = strategy}, AdamW{.lr = 0.1f, .weight_decay = 0.5f},
                  {.micro_batch = 2});
    for (int step = 0; step < 3; ++step) engine.step(regression_batch(0, 2));
    engine.with_parameters([&] {
      // One dimension: not decayed.
      CHECK(model.output.unused.tensor().to_vector<float>() == std::vector<float>{5, 5, 5});
    });
  }
}

TEST_CASE("gradients can be read after a step: ranges, whole, and their norms", "[parallel]") {
  const Group& group = world().group();
  const Size rows = 24 / group.size();
  const auto batch = regression_batch(group.rank() * rows, rows), all = regression_batch(0, 24);
  Regression alone;
  alone.materialize(kCpu, DType::f32, EngineOptions().seed);
  Tape tape;
  {
    const TapeScope recording(&tape);
    backward(tape, alone.loss(all));
  }
  std::vector<ParallelOptions> ways;
  for (const Strategy& strategy : kStrategies) ways.push_back({.strategy = strategy});
  if (group.size() == 4) ways.push_back({.strategy = Strategy::zero3, .shard_size = 2});
  for (std::size_t i = 0; i < 2 * ways.size(); ++i) {
    const ParallelOptions& way = ways[i / 2];
    const Size accum = 1 + static_cast<Size>(i % 2);
    Regression model;
    Engine engine(model, group, way, AdamW{.lr = 0.1f}, {.micro_batch = rows / accum, .accum = accum});
    CHECK_THROWS_WITH(engine.gradients(), "gradients: expected a step of this engine, found none");
    const StepResult result = engine.step(batch);
    Size own = 0;
    for (const StateRange& range : engine.gradients()) own += range.values.elements();
    double elements = 0;
    for (const Size of_rank : comm::gather_values(group, own)) elements += static_cast<double>(of_rank);
    CHECK(elements == static_cast<double>(model.parameter_count()));
    double squares = 0;
    const std::vector<GradientNorm> norms = engine.gradient_norms();
    CHECK(norms.size() == model.all_parameters().size());
    for (std::size_t k = 0; k < norms.size(); ++k) {
      const nn::NamedParameter entry = alone.all_parameters()[k];
      CHECK(norms[k].parameter == entry.name);
      squares += norms[k].norm * norms[k].norm;
      const Tensor found = engine.gradient(entry.name);
      CHECK(found.shape() == entry.parameter->shape());
      const Tensor wanted = entry.parameter->tensor().gradient();
      for (Size at = 0; at < found.elements(); ++at) {
        const double expected = wanted.defined() ? wanted.to_vector<float>()[static_cast<std::size_t>(at)] : 0;
        CHECK(found.data<float>()[at] == Approx(expected).epsilon(1e-4).margin(1e-6));  // sums in another order
      }
    }
    CHECK(std::sqrt(squares) == Approx(result.norm()).epsilon(1e-6));
    CHECK_THROWS_WITH(engine.gradient("first"),
                      "gradient: parameter: expected the name of a trained parameter, got first");
  }
}

TEST_CASE("weights of 7 x 15, 15 x 3 and 16 x 17 train as on one rank", "[parallel]") {
  const Group& group = world().group();
  const Size all = 12, rows = all / group.size();
  const auto batch_of = [](Size first, Size count) {
    std::vector<float> x;
    for (Size i = 17 * first; i < 17 * (first + count); ++i) {
      x.push_back(2 * uniform_from(philox_word(11, static_cast<std::uint64_t>(i))) - 1);
    }
    return Batch{Tensor::from(x, {count, 17}), {}};
  };
  struct Trained {
    std::vector<float> losses, weights;
  };
  const auto train = [&](const Group& ranks, const ParallelOptions& parallel, Size micro_batch) {
    Uneven model;
    Engine engine(model, ranks, parallel, AdamW{.lr = 0.01f}, {.micro_batch = micro_batch});
    Trained trained;
    for (Size step = 0; step < 4; ++step) {
      const StepResult result = engine.step(batch_of(step * all + ranks.rank() * micro_batch, micro_batch));
      trained.losses.push_back(result.loss()), trained.losses.push_back(result.norm());
    }
    engine.with_parameters([&] {
      for (const nn::NamedParameter& entry : model.all_parameters()) {
        const std::vector<float> values = entry.parameter->tensor().to_vector<float>();
        trained.weights.insert(trained.weights.end(), values.begin(), values.end());
      }
    });
    return trained;
  };
  const Trained alone = train(Group(), {}, all);
  CHECK(alone.weights.size() == 7 * 15 + 15 * 3 + 16 * 17);
  CHECK(alone.losses[6] < alone.losses[0]);
  std::vector<ParallelOptions> ways;
  for (const Strategy& strategy : kStrategies) ways.push_back({.strategy = strategy});
  if (group.size() == 4) ways.push_back({.strategy = Strategy::zero3, .shard_size = 2});
  for (const ParallelOptions& way : ways) {
    INFO(way.strategy.name << " shard_size " << way.shard_size << " ranks " << group.size());
    const Trained trained = train(group, way, rows);
    for (std::size_t i = 0; i < alone.losses.size(); ++i) {
      CHECK(trained.losses[i] == Approx(alone.losses[i]).epsilon(1e-5));  // sums in another order
    }
    double worst = 0;
    for (std::size_t i = 0; i < alone.weights.size(); ++i) {
      worst = std::max(worst, static_cast<double>(std::abs(trained.weights.at(i) - alone.weights[i])));
    }
    CHECK(worst < 1e-4);  // 1 % of the learning rate, by which a step moves each of them
  }
}

TEST_CASE("a parameter that one rank alone uses has the mean of its gradient and of zeros", "[parallel]") {
  const Group& group = world().group();
  for (const Strategy& strategy : kStrategies) {
    INFO(strategy.name);
    Unequal model(group.rank() == group.size() - 1);
    Engine engine(model, group, {.strategy = strategy}, AdamW{.lr = 0.1f}, {.micro_batch = 2, .accum = 2});
    const Batch batch{Tensor::from(std::vector<float>(20, 1), {4, 5}), {}};
    for (int step = 0; step < 2; ++step) {
      engine.step(batch);
      for (const float value : engine.gradient("unit.sometimes").to_vector<float>()) {
        CHECK(value == Approx(1.0 / group.size()).epsilon(1e-6));
      }
      for (const float value : engine.gradient("unit.always").to_vector<float>()) {
        CHECK(value == Approx(0.2).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("tied embeddings: every row of the table is updated on every rank", "[parallel]") {
  nn::TransformerSpec spec = small_spec("gpt-tiny");
  spec.vocab = 37, spec.width = 24, spec.heads = 2, spec.kv_heads = 2, spec.ffn = 20;
  for (const Strategy& strategy : kStrategies) {
    const auto model = nn::make_transformer(spec);
    Engine engine(*model, world().group(), {.strategy = strategy}, AdamW{.lr = 0.1f, .weight_decay = 0},
                  {.micro_batch = 2, .seq = 16});
    std::vector<float> before, after;
    const auto read = [&](std::vector<float>& into) {
      engine.with_parameters([&] { into = model->all_parameters()[0].parameter->tensor().to_vector<float>(); });
    };
    read(before);
    engine.step(rows_of_step(engine.batch_shape(), 0, spec.vocab));
    read(after);
    REQUIRE(before.size() == static_cast<std::size_t>(37 * 24));
    std::size_t unchanged = 0;
    for (std::size_t i = 0; i < before.size(); ++i) unchanged += before[i] == after[i];
    CHECK(unchanged == 0);
  }
}

TEST_CASE("clipping multiplies the gradient by clip / norm, and only where the norm is larger", "[parallel]") {
  // The norm, and AdamW's m after one step, from all ranks: (1 - beta1) times the gradient that the update used.
  const auto first_moment = [](const Strategy& strategy, float clip) {
    Regression model;
    Engine engine(model, world().group(), {.strategy = strategy}, AdamW{.lr = 0.1f, .clip = clip}, {.micro_batch = 1});
    const float norm = engine.step(regression_batch(world().rank(), 1)).norm();
    std::string mine;
    for (const StateRange& range : engine.shard_map().owned) {
      if (range.kind != "m") continue;
      const Tensor& values = range.values;
      mine.append(static_cast<const char*>(values.data()), static_cast<std::size_t>(values.bytes()));
    }
    std::vector<float> m;
    for (const std::string& part : world().group().all_gather_bytes(mine)) {
      const std::size_t held = m.size();
      m.resize(held + part.size() / sizeof(float));
      if (!part.empty()) std::memcpy(m.data() + held, part.data(), part.size());
    }
    return std::pair{norm, m};
  };
  for (const Strategy& strategy : kStrategies) {
    INFO(strategy.name);
    const auto [norm, whole] = first_moment(strategy, 0);
    double squares = 0;
    for (const float m : whole) squares += static_cast<double>(m) * m;
    CHECK(std::sqrt(squares) == Approx((1 - AdamW{}.beta1) * norm).epsilon(1e-6));
    CHECK(first_moment(strategy, 1.01f * norm) == std::pair{norm, whole});
    for (const float clip : {0.99f * norm, 1e-3f * norm}) {
      const auto [clipped_norm, clipped] = first_moment(strategy, clip);
      CHECK(clipped_norm == norm);  // the norm is that before clipping
      CHECK(clipped.size() == whole.size());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < std::min(clipped.size(), whole.size()); ++i) {
        const double expected = static_cast<double>(whole[i]) * clip / norm;
        // Four roundings in f32: the factor, its product with g, and (1 - beta1) times that; (1 - beta1) times g.
        wrong += !(std::abs(clipped[i] - expected) <= 4 * 0x1p-24 * std::abs(expected));
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the norm of all gradients takes one exchange, clipped or not", "[parallel]") {
  for (const Strategy& strategy : kStrategies) {
    for (const float clip : {0.0f, 1e-3f}) {
      INFO(strategy.name << " clip " << clip);
      Regression model;
      Engine engine(model, world().group(), {.strategy = strategy}, AdamW{.clip = clip}, {.micro_batch = 1});
      engine.rehearse(regression_batch(0, 1));
      const auto timeline = make_timeline();
      {
        const TimelineScope recorded(timeline);
        engine.step(regression_batch(0, 1));
      }
      std::vector<std::string> others;  // collectives that are not of one unit
      for (const Span& span : timeline->spans()) {
        const bool of_unit = span.name.ends_with(" gradients") || span.name.ends_with(" parameters");
        if (span.lane != Lane::compute && !of_unit) others.push_back(span.name);
      }
      CHECK(others == std::vector<std::string>{"loss", "norm"});
    }
  }
}

TEST_CASE("a non-finite loss suppresses the update", "[parallel]") {
  const auto weights_after = [](float input) {
    Regression model;
    Engine engine(model, world().group(), {.strategy = Strategy::zero3}, AdamW{.lr = 0.1f}, {.micro_batch = 1});
    Batch batch = regression_batch(world().rank(), 1);
    batch.inputs.data<float>()[0] = input;
    const StepResult result = engine.step(batch);
    std::vector<float> values;
    engine.with_parameters([&] { values = model.first.parameters()[0].parameter->tensor().to_vector<float>(); });
    return std::pair{result.loss(), values};
  };
  const Tensor first_weight = Tensor::empty({35}, DType::f32);
  nn::initial_values(first_weight, "first.linear.weight", nn::Init::normal(0.3f), 1337, 0);
  const std::vector<float> initial = first_weight.to_vector<float>();
  const auto [loss, updated] = weights_after(0.5f);
  CHECK(std::isfinite(loss));
  CHECK(updated != initial);
  const auto [bad_loss, kept] = weights_after(NAN);
  CHECK_FALSE(std::isfinite(bad_loss));
  CHECK(kept == initial);
}

TEST_CASE("evaluation agrees with the training loss and changes nothing", "[parallel]") {
  const nn::TransformerSpec spec = small_spec("llama-tiny");
  for (const Strategy& strategy : kStrategies) {
    const auto model = nn::make_transformer(spec);
    Engine engine(*model, world().group(), {.strategy = strategy}, AdamW{}, {.micro_batch = 2, .seq = 16});
    const Batch batch = rows_of_step(engine.batch_shape(), 0, spec.vocab);
    const double first = mean_loss(engine.evaluate(batch)), again = mean_loss(engine.evaluate(batch));
    CHECK(first == again);
    CHECK(engine.step(batch).loss() == Approx(first).epsilon(1e-6));
    CHECK(mean_loss(engine.evaluate(batch)) < first);
  }
}

TEST_CASE("a model whose batches have no targets trains, in micro-batches", "[parallel]") {
  Regression model;
  Engine engine(model, world().group(), {}, AdamW{.lr = 0.01f}, {.micro_batch = 4, .accum = 2});
  const Batch batch{regression_batch(world().rank() * 8, 8).inputs, {}};
  const float first = engine.step(batch).loss();
  for (int step = 0; step < 60; ++step) engine.step(batch);
  CHECK(engine.step(batch).loss() < 0.2f * first);
}

TEST_CASE("a batch of another size is refused by name, and the engine goes on", "[parallel]") {
  Regression model;
  Engine engine(model, world().group(), {}, AdamW{}, {.micro_batch = 4});
  const Batch whole = regression_batch(0, 4), half = regression_batch(0, 2);
  const auto refusal = [&](const Batch& batch) -> std::string {
    try {
      engine.step(batch);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "none";
  };
  CHECK(refusal({whole.inputs, half.targets}) == "batch.targets: expected accum * micro_batch = 4 samples, got 2");
  CHECK(refusal({half.inputs, whole.targets}) == "batch.inputs: expected accum * micro_batch = 4 samples, got 2");
  CHECK(refusal({whole.inputs, whole.targets, half.inputs}) ==
        "batch.document_starts: expected accum * micro_batch = 4 samples, got 2");
  CHECK(refusal({{}, whole.targets}) == "batch.inputs: expected accum * micro_batch = 4 samples, got 0");
  CHECK(refusal(whole) == "none");
}

TEST_CASE("what the engine refuses", "[parallel]") {
  const Group& group = world().group();
  const auto message = [&](const ParallelOptions& parallel, const EngineOptions& options) -> std::string {
    Regression model;
    try {
      Engine engine(model, group, parallel, AdamW{}, options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  CHECK(message({.strategy = Strategy::zero3, .shard_size = 5}, {}) ==
        "shard_size: expected a divisor of the " + std::to_string(group.size()) +
            (group.size() == 1 ? " rank" : " ranks") + ", got 5");
  if (group.size() % 2 == 0) {
    CHECK(message({.strategy = Strategy::ddp, .shard_size = group.size() / 2}, {}) ==
          "shard_size: expected 0 with ddp, which shards nothing, got " + std::to_string(group.size() / 2));
    const Strategy mine{"mine", Placement::replicated, Placement::replicated, Placement::replicated};
    CHECK(message({.strategy = mine, .shard_size = group.size() / 2}, {}) ==
          "shard_size: expected 0 with mine, which shards nothing, got " + std::to_string(group.size() / 2));
  }
  CHECK(message({}, {.dtype = DType::f64}) == "dtype: expected f32, bf16 or f16, got f64");
  CHECK(message({}, {.device = {DeviceType::cuda, 0}}) == "device cuda:0 is not in this build: it has cpu and meta");
}

TEST_CASE("a first step that rehearses its memory leaves the spans of any other step", "[parallel]") {
  const nn::TransformerSpec spec = small_spec("gpt-tiny");
  for (const Strategy& strategy : kStrategies) {
    const auto model = nn::make_transformer(spec);
    Engine engine(*model, world().group(), {.strategy = strategy}, AdamW{}, {.micro_batch = 1, .seq = 16});
    const auto spans_of_step = [&](Size step) {
      const auto timeline = make_timeline();
      {
        const TimelineScope current(timeline);
        engine.step(rows_of_step(engine.batch_shape(), step, spec.vocab));
      }
      std::vector<std::string> names;
      for (const Span& span : timeline->spans()) {
        names.push_back(std::string(kLaneNames[static_cast<std::size_t>(span.lane)]) + " " + span.name);
      }
      return names;
    };
    const std::vector<std::string> first = spans_of_step(0);
    INFO(strategy.name);
    CHECK(first.size() > 10);
    CHECK(first == spans_of_step(1));
  }
}

TEST_CASE("a wait takes time points where other ranks take part, also on paper", "[parallel]") {
  const auto time_points = [](const Group& group, Device device) {
    profile::ActivityClock clock;
    const profile::ActivityClockScope current(&clock);
    const Tensor full = Tensor::empty({group.size() * Size{2}}, DType::f32, device);
    Work work = group.all_gather("values", full, full.narrow(0, 2 * group.rank(), 2));
    wait_exposed(work, Activity::gather_exposed);
    CHECK_FALSE(work.has_peers());
    return clock.lap().time_points();
  };
  CHECK(time_points(ranks(), kCpu) == (ranks().size() > 1 ? 3 : 1));
  CHECK(time_points(Group::meta(0, 8), kMeta) == 3);
  CHECK(time_points(Group(), kCpu) == 1);
}
