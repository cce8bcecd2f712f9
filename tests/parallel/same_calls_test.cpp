// Ranks whose steps would call different collectives: all get an error before the first step, and none hangs.
#include "comm/same_calls.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "libtrain/error.h"
#include "libtrain/nn/layers.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using lt_test::world;

namespace {

template <class Body>
std::string refusal(Body&& body) {
  try {
    body();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error was thrown";
}

}  // namespace

TEST_CASE("same calls: the first one that differs is named on all ranks", "[parallel]") {
  const Group& group = world().group();
  const int last = group.size() - 1;
  std::vector<std::string> calls = {"a", "b", "c"};
  CHECK_NOTHROW(comm::require_same_calls("step", calls, group));
  if (group.rank() == last) calls[1] = "x";
  CHECK(refusal([&] { comm::require_same_calls("step", calls, group); }) ==
        "collective 2 of a step: expected that of rank 0 on all ranks, b, found on rank " + std::to_string(last) +
            " x");
  calls = {"a", "b"};
  if (group.rank() == last) calls.push_back("c");
  CHECK(refusal([&] { comm::require_same_calls("step", calls, group); }) ==
        "collective 3 of a step: expected that of rank 0 on all ranks, no further collective, found on rank " +
            std::to_string(last) + " c");
}

TEST_CASE("engine: ranks with other settings are refused when the engine is made", "[parallel]") {
  const nn::TransformerSpec spec = lt_test::small_spec("gpt-tiny");
  const auto model = nn::make_transformer(spec);
  const Group& group = world().group();
  const auto refused = [&](const auto& change) {
    ParallelOptions parallel{.strategy = Strategy::zero3};
    EngineOptions step{.micro_batch = 2, .seq = 16};
    OptimizerGroups optimizers = AdamW{.lr = 1e-3f};
    if (group.rank() == group.size() - 1) change(parallel, step, optimizers);
    return refusal([&] { Engine(*model, group, parallel, optimizers, step); });
  };
  const std::string on_rank = ", found on rank " + std::to_string(group.size() - 1) + " ";
  const auto expect = [&](const std::string& first, const std::string& other) {
    return "settings: expected those of rank 0 on all ranks, " + first + on_rank + other;
  };
  CHECK(refused([](auto& parallel, auto&, auto&) { parallel.reduce_dtype = DType::bf16; }) ==
        expect("reduce_dtype f32", "reduce_dtype bf16"));
  CHECK(refused([](auto& parallel, auto&, auto&) { parallel.shard_size = 1; }) ==
        expect("shard_size 0", "shard_size 1"));
  CHECK(refused([](auto&, auto& step, auto&) { step.micro_batch = 3; }) == expect("micro_batch 2", "micro_batch 3"));
  CHECK(refused([](auto&, auto& step, auto&) { step.seed = 1; }) == expect("seed 1337", "seed 1"));
  CHECK(refused([](auto&, auto&, auto& optimizers) { optimizers.clip = 2; }) == expect("clip 1", "clip 2"));
  CHECK(refused([](auto&, auto&, auto& optimizers) { optimizers.frozen = {"blocks.0.*"}; }) ==
        expect("frozen ", "frozen blocks.0.*"));
  CHECK(refused([](auto&, auto&, auto&) {}) == "no error was thrown");
}

// On one rank the last unit borrows from the first, which ZeRO-3 then gathers once more.
struct Borrower final : nn::Model {
  explicit Borrower(bool borrows)
      : first(add_unit<nn::Linear>("first", {.in = 4, .out = 4, .bias = false, .init = nn::Init::normal(0.1f)})),
        middle(add_unit<nn::Linear>("middle", {.in = 4, .out = 4, .bias = false, .init = nn::Init::normal(0.1f)})),
        last(add_unit<nn::Linear>("last", {.in = 4, .out = 4, .bias = false, .init = nn::Init::normal(0.1f)})) {
    if (borrows) borrow(last, first);
  }
  Tensor loss(const Batch& batch) override {
    if (refuses) throw UsageError("model", "no step on this rank");
    const auto apply = [](const nn::Linear& linear, const Tensor& x) { return linear(x); };
    const Tensor y = run(middle, apply, run(first, apply, batch.inputs));
    return run(
        last, [this](const Tensor& x) { return ops::mean(last(x)); }, y);
  }
  nn::Linear &first, &middle, &last;
  bool refuses = false;
};

TEST_CASE("engine: ranks that would call other collectives are refused before each step", "[parallel]") {
  Borrower model(world().rank() == 0);
  Engine engine(model, world().group(), {.strategy = Strategy::zero3}, AdamW(), {.micro_batch = 2, .seq = 1});
  const Batch batch{Tensor::zeros({2, 4}, DType::f32), {}};
  for (int i = 0; i < 2; ++i) {
    const std::string text = refusal([&] { i == 0 ? engine.rehearse(batch) : static_cast<void>(engine.step(batch)); });
    CHECK(text.find(" of a step: expected that of rank 0 on all ranks, ") != std::string::npos);
    CHECK(engine.memory_plans().empty());
  }
}

TEST_CASE("engine: a pass that one rank cannot rehearse stays on none", "[parallel]") {
  Borrower model(true);
  Engine engine(model, world().group(), {.strategy = Strategy::zero3}, AdamW(), {.micro_batch = 2, .seq = 1});
  const Batch batch{Tensor::zeros({2, 4}, DType::f32), {}}, large{Tensor::zeros({2000, 4}, DType::f32), {}};
  model.refuses = world().rank() == 1;
  CHECK_THROWS_AS(engine.rehearse(batch, large), UsageError);
  model.refuses = false;
  CHECK(engine.memory_plans().empty());
  CHECK(std::isfinite(engine.step(batch).loss()));
  CHECK(engine.arena_bytes() < large.inputs.bytes());
}

TEST_CASE("engine: an evaluation of other rows on a rank is refused on all, and the engine goes on", "[parallel]") {
  Borrower model(true);
  Engine engine(model, world().group(), {.strategy = Strategy::zero3}, AdamW(), {.micro_batch = 2, .seq = 1});
  const auto rows = [](Size count) { return Batch{Tensor::zeros({count, 4}, DType::f32), {}}; };
  CHECK(engine.evaluate(rows(8)).size() == static_cast<std::size_t>(world().size()));
  const Size last = world().rank() == world().size() - 1 ? 7 : 8;
  CHECK(refusal([&] { engine.evaluate(rows(last)); }) ==
        "evaluation: expected a batch of the same shapes on all ranks, inputs [8, 4] f32, found on rank " +
            std::to_string(world().size() - 1) + " inputs [7, 4] f32");
  CHECK(engine.evaluate(rows(8)).size() == static_cast<std::size_t>(world().size()));
}

TEST_CASE("engine: a step of another length on a rank is refused on all, and the engine goes on", "[parallel]") {
  Borrower model(true);
  Engine engine(model, world().group(), {.strategy = Strategy::zero3}, AdamW(), {.micro_batch = 2, .seq = 1});
  const auto of_length = [](Size length) { return Batch{Tensor::zeros({2, length, 4}, DType::f32), {}}; };
  const int last = world().size() - 1;
  const auto refused = [&] { return refusal([&] { engine.step(of_length(world().rank() == last ? 5 : 3)); }); };
  const std::string expected =
      "step: expected a batch of the same shapes on all ranks, inputs [2, 3, 4] f32, found on rank " +
      std::to_string(last) + " inputs [2, 5, 4] f32";
  CHECK(refused() == expected);  // both are new
  CHECK(std::isfinite(engine.step(of_length(3)).loss()));
  CHECK(refused() == expected);  // one is known
  for (const Size length : {3, 5}) CHECK(std::isfinite(engine.step(of_length(length)).loss()));
  CHECK(refused() == expected);  // both are known
  engine.set_learning_rate(world().rank() == last ? 0.5 : 0.25);
  CHECK(refusal([&] { engine.step(of_length(3)); }) ==
        "step: expected the same learning rate on all ranks, 0.25, found on rank " + std::to_string(last) + " 0.5");
  engine.set_learning_rate(0.25);
  CHECK(std::isfinite(engine.step(of_length(3)).loss()));
}

TEST_CASE("engine: the plans of the shapes that were used last are kept", "[parallel]") {
  Borrower model(false);
  Engine engine(model, world().group(), {}, AdamW(), {.micro_batch = 1, .seq = 1});
  const auto loss_of = [&](Size rows) {
    return engine.evaluate({Tensor::from(std::vector<float>(static_cast<std::size_t>(4 * rows), 1), {rows, 4}), {}})[0]
        .loss;
  };
  const double first = loss_of(1);
  for (Size rows = 2; rows < 300; ++rows) loss_of(rows);
  CHECK(engine.memory_plans().size() == 256);
  CHECK(loss_of(1) == first);
}
