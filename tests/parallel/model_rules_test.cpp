// What an engine requires of a custom model, of its batches and of its caller. Each violation is refused by name.
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "libtrain/nn/layers.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/tensor/autograd.h"
#include "parallel/for_tests.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"

using namespace lt;
using namespace lt_test;

namespace {

constexpr Size kVocab = 32, kWidth = 8, kSeq = 4;
const EngineOptions kOptions{.micro_batch = 2, .seq = kSeq};

Batch tokens(Size first = 0) { return synthetic_batch(first, 2, kSeq, kVocab); }

// An embedding and a head; `loss_of` makes the loss of a batch.
struct Pair : nn::Model {
  using LossOf = std::function<Tensor(Pair&, const Batch&)>;
  explicit Pair(LossOf loss_of_ = usual)
      : embed(add_unit<nn::Embedding>("embed", {.count = kVocab, .width = kWidth, .init = nn::Init::normal(0.5f)})),
        head(add_unit<nn::Embedding>("head", {.count = kVocab, .width = kWidth, .init = nn::Init::normal(0.5f)})),
        loss_of(std::move(loss_of_)) {}
  using Model::add_parameter, Model::add_unit, Model::borrow, Model::run;
  Tensor loss(const Batch& batch) override { return loss_of(*this, batch); }

  static Tensor logits_of(const Tensor& x, const nn::Embedding& table) { return ops::linear(x, table.weight()); }
  static Tensor usual(Pair& pair, const Batch& batch) { return pair.loss_with(batch, pair.head); }
  Tensor loss_with(const Batch& batch, const nn::Embedding& table) {
    const auto loss_of = [](const nn::Embedding& with, const Tensor& x, const Tensor& targets) {
      return nn::cross_entropy(logits_of(x, with), targets);
    };
    return run(head, loss_of, table, embedded(batch), batch.targets);
  }

  Tensor embedded(const Batch& batch) {
    return run(
        embed, [](const nn::Embedding& table, const Tensor& ids) { return table(ids); }, batch.inputs);
  }

  nn::Embedding &embed, &head;
  LossOf loss_of;
};

// Between the embedding and the head is a unit whose only parameter has no elements.
struct Hollow final : nn::Model {
  struct Nothing final : nn::Module {
    Nothing() { add_parameter("weight", {0}, nn::Init::constant(0)); }
  };
  Hollow()
      : embed(add_unit<nn::Embedding>("embed", {.count = kVocab, .width = kWidth, .init = nn::Init::normal(0.5f)})),
        nothing(add_unit<Nothing>("nothing")),
        head(add_unit<nn::Embedding>("head", {.count = kVocab, .width = kWidth, .init = nn::Init::normal(0.5f)})) {}
  Tensor loss(const Batch& batch) override {
    const Tensor x = run(
        embed, [this](const Tensor& ids) { return embed(ids); }, batch.inputs);
    const Tensor y = run(
        nothing, [](const Tensor& in) { return ops::scale(in, 2); }, x);
    const auto loss_of = [this](const Tensor& in, const Tensor& targets) {
      return nn::cross_entropy(ops::linear(in, head.weight()), targets);
    };
    return run(head, loss_of, y, batch.targets);
  }

  nn::Embedding& embed;
  Nothing& nothing;
  nn::Embedding& head;
};

// Returns its input. Its backward pass throws while `throws` is true.
struct Throwing final : Function {
  const char* name() const override { return "throwing"; }
  Tensor forward(const Tensor& x) {
    slot_ = x.gradient_slot();
    const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    if (!x.device().is_meta()) copy(y, x);
    return y;
  }
  void backward(const Tensor& dy) override {
    if (throws && !dy.device().is_meta()) throw UsageError("test", "no gradient today");
    slot_->add(dy);
  }
  static inline bool throws = false;

 private:
  Slot slot_;
};

std::string refusal_of(Pair::LossOf loss, const ParallelOptions& parallel = {},
                       const EngineOptions& options = kOptions) {
  Pair model(std::move(loss));
  Engine engine(model, ranks(), parallel, AdamW{}, options);
  return message_of<UsageError>([&] { engine.step(tokens()); });
}

}  // namespace

TEST_CASE("a parameter that loss() uses outside of its unit is refused, not trained by half", "[parallel]") {
  const auto with_penalty = [](Pair& pair, const Batch& batch) {
    const Tensor loss = Pair::usual(pair, batch), w = pair.embed.weight();
    return ops::add(loss, ops::scale(ops::sum(ops::mul(w, w)), 100));
  };
  const auto tied = [](Pair& pair, const Batch& batch) { return pair.loss_with(batch, pair.embed); };
  for (const Strategy& strategy : {Strategy::ddp, Strategy::zero1, Strategy::zero2}) {
    for (const bool arena : {false, true}) {
      std::optional<parallel::SeparateAllocationScope> separate;
      if (!arena) separate.emplace();
      for (const Pair::LossOf& loss : {Pair::LossOf(with_penalty), Pair::LossOf(tied)}) {
        CHECK(refusal_of(loss, {.strategy = strategy}) ==
              "parameter embed.weight: expected loss() to use it inside run() of its unit, found a use outside");
      }
    }
  }
}

TEST_CASE("a unit whose parameters have no elements trains with the others", "[parallel]") {
  for (const Strategy& strategy : kStrategies) {
    Hollow model;
    Engine engine(model, ranks(), {.strategy = strategy}, AdamW{.lr = 0.1f}, kOptions);
    const float before = engine.step(tokens()).loss();
    CHECK(engine.step(tokens()).loss() < before);
  }
}

TEST_CASE("a matrix of no columns is none of Muon's", "[parallel]") {
  struct Block final : nn::Module {
    Block()
        : square(
              add<nn::Linear>("square", {.in = kWidth, .out = kWidth, .bias = false, .init = nn::Init::normal(0.1f)})) {
      add_parameter("nothing", {4, 0}, nn::Init::constant(0));
    }
    nn::Linear& square;
  };
  struct Squared final : nn::Model {
    Squared()
        : block(add_block<Block>("block")),
          head(add_unit<nn::Linear>("head", {.in = kWidth, .out = 1, .init = nn::Init::normal(0.1f)})) {}
    Tensor loss(const Batch& batch) override {
      const auto loss_of = [this](const Tensor& x, const Tensor& y) {
        const Tensor error = ops::add(head(y), ops::scale(ops::slice(x, 1, 0, 1), -1));
        return ops::mean(ops::mul(error, error));
      };
      const Tensor y = run(
          block, [this](const Tensor& x) { return block.square(x); }, batch.inputs);
      return run(head, loss_of, batch.inputs, y);
    }
    Block& block;
    nn::Linear& head;
  };
  const OptimizerGroups optimizers({{"*", Muon{}}, {"*", AdamW{}}}, 0.01, 1);
  for (const Strategy& strategy : kStrategies) {
    Squared model;
    Engine engine(model, ranks(), {.strategy = strategy}, optimizers, kOptions);
    const Batch batch{Tensor::from(std::vector<float>(2 * kWidth, 1), {2, kWidth}), {}};
    const float before = engine.step(batch).loss();
    CHECK(engine.step(batch).loss() < before);
  }
}

TEST_CASE("a unit borrows from units before it alone", "[parallel]") {
  Pair model;
  CHECK_NOTHROW(model.borrow(model.head, model.embed));
  CHECK_THROWS_WITH(model.borrow(model.embed, model.head),
                    "borrow(): expected an owner among the units before embed, got head");
}

TEST_CASE("names that no checkpoint can hold, and parameters outside of units, are refused before training",
          "[parallel]") {
  const auto refused = [](const std::function<void(Pair&)>& extend) {
    Pair model;
    extend(model);
    return message_of<UsageError>([&] { Engine(model, ranks(), {}, AdamW{}, kOptions); });
  };
  const nn::Init init = nn::Init::normal(1);
  CHECK(refused([&](Pair& pair) {
          pair.add_unit<nn::Embedding>("head", {.count = kVocab, .width = kWidth, .init = init});
        }) == "parameter head.weight: expected a name of its own, found two of this name");
  CHECK(refused([&](Pair& pair) {
          pair.add_unit<nn::Embedding>("a/b", {.count = kVocab, .width = kWidth, .init = init});
        }) == "parameter 'a/b.weight': expected a name that is not empty, \".\" or \"..\", without slashes and NUL");
  CHECK(refused([&](Pair& pair) { pair.add_parameter("stray", {2}, init); }) ==
        "parameter stray: expected it in a unit of the model, found it outside of all");
}

TEST_CASE("a loss or a unit without a tensor is refused", "[parallel]") {
  CHECK(refusal_of([](Pair& pair, const Batch& batch) {
          Pair::usual(pair, batch);
          return Tensor();
        }) == "loss(): expected a tensor of one element, got none");
  CHECK(refusal_of([](Pair& pair, const Batch&) { return pair.run(pair.embed, [] { return Tensor(); }); }) ==
        "run(): expected a tensor from the body of unit embed, got none");
}

TEST_CASE("targets that do not count need nn::cross_entropy", "[parallel]") {
  EngineOptions options = kOptions;
  options.ignored_targets = true;
  const auto own = [](Pair& pair, const Batch& batch) {
    const auto loss_of = [](const nn::Embedding& head, const Tensor& x, const Tensor& targets) {
      return ops::cross_entropy(Pair::logits_of(x, head), targets);
    };
    return pair.run(pair.head, loss_of, pair.embedded(batch), batch.targets);
  };
  CHECK(refusal_of(own, {}, options)
            .starts_with("targets that do not count (EngineOptions::ignored_targets): expected a"));
  CHECK(refusal_of(Pair::usual, {}, options) == "no error was thrown");
}

TEST_CASE("targets of loss()'s own all count where the engine is not told", "[parallel]") {
  const auto own = [](Pair& pair, const Batch& batch) {
    if (batch.inputs.device().is_meta())
      return Pair::usual(pair, {batch.inputs, Tensor::empty({2, kSeq}, DType::i32, kMeta)});
    return Pair::usual(pair,
                       {batch.inputs, Tensor::from(std::vector<std::int32_t>(2 * kSeq, kIgnoredTarget), {2, kSeq})});
  };
  CHECK(refusal_of(own) == "cross_entropy: targets: expected ids from 0 to 31, got -100 at sample 0, position 0");
}

TEST_CASE("a model that keeps a tensor of a step is told so", "[parallel]") {
  Tensor kept;
  const auto keeper = [&kept](Pair& pair, const Batch& batch) { return kept = Pair::usual(pair, batch); };
  CHECK(refusal_of(keeper).find("expected all blocks back at its end") != std::string::npos);
}

TEST_CASE("batches that are strided, empty or without values are refused, and the engine goes on", "[parallel]") {
  Pair model;
  Engine engine(model, ranks(), {}, AdamW{}, kOptions);
  const Tensor row = synthetic_batch(0, 2, kSeq + 1, kVocab).inputs;
  const Batch strided{row.narrow(1, 0, kSeq), row.narrow(1, 1, kSeq)};
  CHECK_THROWS_WITH(engine.step(strided), "expected a contiguous batch, got strides [5, 1]");
  CHECK_THROWS_AS(engine.step(model.batch_on_meta(2, kSeq)), UsageError);
  CHECK_THROWS_WITH(engine.evaluate(Batch{}), "batch.inputs: expected samples, got none");
  CHECK(engine.step(tokens()).loss() > 0);
}

TEST_CASE("errors name the way out: buffers for constants, with_parameters() between steps", "[parallel]") {
  const auto hint_of = [](const auto& body) {
    try {
      body();
    } catch (const UsageError& error) {
      return error.hint();
    }
    return std::string("no error was thrown");
  };
  Pair constant(
      [](Pair& pair, const Batch& batch) { return Pair::usual(pair, batch) + Tensor::zeros({}, DType::f32); });
  Engine first(constant, ranks(), {}, AdamW{}, kOptions);
  CHECK(hint_of([&] { first.step(tokens()); }) ==
        "a constant of a model is an nn::Buffer, or is made on the device of another tensor: x.device()");
  Pair sharded;
  Engine second(sharded, ranks(), {.strategy = Strategy::zero3}, AdamW{}, kOptions);
  CHECK(second.step(tokens()).loss() > 0);
  CHECK(hint_of([&] { sharded.head.weight().to_vector<float>(); }) ==
        "between steps, read parameters inside Engine::with_parameters()");
}

TEST_CASE("units out of order, and a model that runs outside of its engine, are refused", "[parallel]") {
  CHECK(refusal_of([](Pair& pair, const Batch& batch) {
          pair.usual(pair, batch);
          return pair.usual(pair, batch);
        }).starts_with("units: expected the end of the pass, got embed: in a pass the units of a model run once each"));
  CHECK(refusal_of([](Pair& pair, const Batch& batch) { return ops::sum(pair.embedded(batch)); }) ==
        "units: expected a pass to run all 2, it ran 1 and not head");
  Pair model;
  Engine engine(model, ranks(), {}, AdamW{}, kOptions);
  CHECK(engine.step(tokens()).loss() > 0);
  CHECK_THROWS_AS(model.loss(tokens()), UsageError);
  CHECK_THROWS_WITH(engine.set_learning_rate(std::nan("")), "learning rate: expected a number from 0 on, got nan");
  for (const double lr : {-1.0, 1e39}) CHECK_THROWS_AS(engine.set_learning_rate(lr), UsageError);
  engine.set_learning_rate(1e-50);  // 0 in f32
  CHECK_THROWS_WITH(engine.set_progress(1, -1), "progress: expected no negative numbers, got 1 steps and -1 samples");
}

TEST_CASE("several engines of one model each train their own parameters", "[parallel]") {
  const auto losses = [](bool beside_another) {
    Pair model;
    Engine a(model, ranks(), {}, AdamW{.lr = 0.1f}, kOptions);
    std::vector<float> numbers;
    for (Size step = 0; step < 4; ++step) {
      if (beside_another) {
        Engine b(model, ranks(), {}, AdamW{.lr = 0.1f}, kOptions);
        b.step(tokens(step));
        a.with_parameters([&] { b.step(tokens(step)); });
        const std::function<void()> refused[] = {[&] { a.step(tokens(step)); },     [&] { a.evaluate(tokens(step)); },
                                                 [&] { a.rehearse(tokens(step)); }, [&] { a.initialise(); },
                                                 [&] { a.parameters_changed(); },   [&] { a.with_parameters([] {}); }};
        for (const auto& body : refused) CHECK_THROWS_AS(a.with_parameters(body), UsageError);
      }
      const StepResult result = a.step(tokens(2 * step));
      numbers.push_back(result.loss()), numbers.push_back(result.norm());
    }
    return numbers;
  };
  CHECK(losses(true) == losses(false));
}

TEST_CASE("after an exception in a backward pass the engine refuses by name, and the next one takes its steps",
          "[parallel]") {
  const auto through = [](Pair& pair, const Batch& batch) {
    const auto loss_of = [](const nn::Embedding& with, const Tensor& x, const Tensor& targets) {
      return nn::cross_entropy(Pair::logits_of(record<Throwing>(x), with), targets);
    };
    return pair.run(pair.head, loss_of, pair.head, pair.embedded(batch), batch.targets);
  };
  const auto first_losses = [](Pair& model, const ParallelOptions& parallel) {
    Engine engine(model, ranks(), parallel, AdamW{.lr = 0.1f}, kOptions);
    const float first = engine.step(tokens()).loss();
    return std::pair{first, engine.step(tokens()).loss()};
  };
  const Size live = memory_live(kCpu).total;
  for (const Strategy& strategy : kStrategies) {
    INFO(strategy.name);
    Pair model(through);
    const auto expected = first_losses(model, {.strategy = strategy});
    {
      Engine engine(model, ranks(), {.strategy = strategy}, AdamW{.lr = 0.1f}, kOptions);
      CHECK(engine.step(tokens()).loss() == expected.first);
      Throwing::throws = true;
      CHECK_THROWS_WITH(engine.step(tokens()), "no gradient today");
      Throwing::throws = false;
      const char* const refused =
          "expected an engine whose steps succeeded: an earlier one ended half-way with an error";
      CHECK_THROWS_WITH(engine.step(tokens()), refused);
      CHECK_THROWS_WITH(engine.evaluate(tokens()), refused);
    }
    CHECK(first_losses(model, {.strategy = strategy}) == expected);
  }
  CHECK(memory_live(kCpu).total == live);
}

TEST_CASE("an engine whose update ended half-way is not saved", "[parallel]") {
  Optimizer failing = AdamW{};
  const auto update = failing.update;
  Size left = 2;  // ranges that are updated
  failing.update = [&](const UpdateRange& range) {
    if (!range.weights.device().is_meta() && left-- == 0) throw UsageError("test", "no more");
    update(range);
  };
  Pair model;
  Engine engine(model, ranks(), {}, failing, kOptions);
  CHECK_NOTHROW(engine.step(tokens()));
  CHECK_THROWS_WITH(engine.step(tokens()), "no more");
  CHECK_THROWS_WITH(engine.shard_map(), "expected an engine whose updates succeeded: one ended half-way with an error");
}
