// Ids outside their table: one error that names the place, equal on every device, and no update. On the CPU an
// operation throws in the middle of a step, so there each rank has a separate engine.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/data/batch_source.h"
#include "libtrain/error.h"
#include "libtrain/nn/layers.h"
#include "libtrain/run/trainer.h"
#include "parallel/for_tests.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"
#include "test_main/temp_folder.h"

using namespace lt;
using namespace lt_test;

namespace {

constexpr Size kSeq = 16;

bool on_cuda() { return test_device().type == DeviceType::cuda; }
Group group() { return on_cuda() ? ranks() : Group(); }
// Whose batch is bad: the last rank's.
bool is_bad_rank() { return group().rank() == group().size() - 1; }

struct BadPlace {
  bool in_targets;
  Size sample, position;
  std::int32_t id;
  const char* message;
};
constexpr BadPlace kBadPlaces[] = {
    {false, 3, 5, 300, "embedding_with_positions: ids: expected ids from 0 to 255, got 300 at sample 3, position 5"},
    {true, 1, 2, -7, "head_cross_entropy: targets: expected ids from 0 to 255, got -7 at sample 1, position 2"},
    {false, 0, 15, -2147483647 - 1,
     "embedding_with_positions: ids: expected ids from 0 to 255, got -2147483648 at sample 0, position 15"},
    {true, 2, 0, 2147483647,
     "head_cross_entropy: targets: expected ids from 0 to 255, got 2147483647 at sample 2, position 0"}};

// With the id at its place, and a worse one behind it, on the last rank.
Batch with_bad_id(const Batch& batch, const BadPlace& bad) {
  if (!is_bad_rank()) return batch;
  std::int32_t* const ids = (bad.in_targets ? batch.targets : batch.inputs).data<std::int32_t>();
  ids[bad.sample * kSeq + bad.position] = bad.id;
  ids[4 * kSeq - 1] = bad.sample == 0 ? 1000 : bad.id;
  return batch;
}

struct IdRun {
  Group ranks = group();
  nn::Gpt2 model;
  Engine engine;

  explicit IdRun(const Strategy& strategy = Strategy::ddp, bool graph = false)
      : model(small_spec("gpt-tiny")),
        engine(model, ranks, {.strategy = strategy, .deterministic = Determinism::on}, AdamW{.lr = 1e-3f},
               {.micro_batch = 2, .accum = 2, .seq = kSeq, .device = test_device(), .cuda_graph = graph}) {}

  Batch batch(Size step) const { return rows_of_step(engine.batch_shape(), step, 256); }
  StepResult step(Size n) { return engine.step(batch(n)); }
  std::uint64_t state() const { return state_checksum(engine, ranks); }
};

Tensor ids_on_device(const std::vector<std::int32_t>& ids, const Shape& shape) {
  return Tensor::from(ids, shape, test_device());
}

// Good batches up to the step after `good`, which has a bad id on the last rank.
class Batches final : public BatchSource {
 public:
  Batches(const BatchShape& shape, Size good, const BadPlace& bad) : shape_(shape), good_(good), bad_(bad) {}
  Batch next() override {
    const Batch batch = rows_of_step(shape_, step_, 256);
    return step_++ == good_ ? with_bad_id(batch, bad_) : batch;
  }
  void seek(Size samples) override { step_ = samples / shape_.global_samples(); }
  Size tokens() const override { return 0; }

 private:
  BatchShape shape_;
  Size good_;
  const BadPlace& bad_;
  Size step_ = 0;
};

}  // namespace

TEST_CASE("ids: a step with a bad one names it and updates nothing, under every strategy", "[parallel]") {
  for (const bool graph : {false, true}) {
    if (graph && !on_cuda()) continue;
    for (const Strategy& strategy : kStrategies) {
      for (const BadPlace& bad : kBadPlaces) {
        INFO(strategy.name << (graph ? ", as a graph" : ""));
        IdRun run(strategy, graph);
        for (Size n = 0; n < 5; ++n) CHECK(std::isfinite(run.step(n).loss()));
        if (graph) CHECK(parallel::EngineForTests::graph_launches(run.engine) == 3);
        const std::uint64_t before = run.state();
        // Read outside of CHECK, which would keep the error.
        float loss = NAN;
        std::string message =
            message_of<UsageError>([&] { loss = run.engine.step(with_bad_id(run.batch(5), bad)).loss(); });
        CHECK(std::isnan(loss));  // on the other ranks
        CHECK(message == (is_bad_rank() ? bad.message : "no error was thrown"));
        CHECK(run.state() == before);
        // Nor does a later step.
        message = message_of<UsageError>([&] { loss = run.step(6).loss(); });
        CHECK(std::isnan(loss));
        if (is_bad_rank() && on_cuda()) CHECK(message == bad.message);
        CHECK(run.state() == before);
      }
    }
  }
}

TEST_CASE("ids: a result that is never read ends the step after the next, and the engine with it", "[parallel]") {
  if (group().size() > 1) return;  // the other ranks would wait in that step
  IdRun run;
  run.step(0);
  const std::uint64_t before = run.state();
  const std::string message = message_of<UsageError>([&] {
    run.engine.step(with_bad_id(run.batch(1), kBadPlaces[0]));
    run.step(2);
    run.step(3);
  });
  CHECK(message == kBadPlaces[0].message);
  CHECK(run.state() == before);
  CHECK_THROWS_WITH(run.step(4), Catch::Matchers::ContainsSubstring("expected an engine whose steps succeeded"));
}

TEST_CASE("ids: a result that is read a step late still names the bad one", "[parallel]") {
  if (!on_cuda()) return;
  IdRun run;
  run.step(0);
  const std::uint64_t before = run.state();
  const StepResult bad = run.engine.step(with_bad_id(run.batch(1), kBadPlaces[1])), next = run.step(2);
  for (const StepResult* result : {&bad, &next}) {
    CHECK(message_of<UsageError>([&] { result->norm(); }) ==
          (is_bad_rank() ? kBadPlaces[1].message : "no error was thrown"));
  }
  CHECK(run.state() == before);
}

TEST_CASE("ids: an evaluation with a bad one", "[parallel]") {
  IdRun run;
  if (group().size() > 1) return;
  CHECK(message_of<UsageError>([&] { run.engine.evaluate(with_bad_id(run.batch(0), kBadPlaces[1])); }) ==
        kBadPlaces[1].message);
}

namespace {

// One target a sample.
struct Classes final : nn::Model {
  Classes() : unit(add_unit<nn::Linear>("unit", {.in = 3, .out = 5, .init = nn::Init::normal(0.5f)})) {}
  Tensor loss(const Batch& batch) override {
    const auto loss_of = [this](const Tensor& x, const Tensor& targets) { return nn::cross_entropy(unit(x), targets); };
    return run(unit, loss_of, batch.inputs, batch.targets);
  }
  nn::Linear& unit;
};

}  // namespace

TEST_CASE("ids: where a sample has one, its error names the sample of the batch", "[parallel]") {
  if (group().size() > 1) return;
  const Batch batch{Tensor::zeros({4, 3}, DType::f32), Tensor::from(std::vector<std::int32_t>{0, 1, 2, 9}, {4})};
  Classes model;
  Engine engine(model, group(), {}, AdamW{}, {.micro_batch = 2, .accum = 2, .device = test_device()});
  CHECK(message_of<UsageError>([&] { engine.step(batch).loss(); }) ==
        "cross_entropy: targets: expected ids from 0 to 4, got 9 at sample 3");
}

TEST_CASE("ids: operations outside of an engine report a bad one once, where values are read", "[parallel]") {
  const Tensor table = Tensor::zeros({4, 3}, DType::f32, test_device());
  const Tensor ids = ids_on_device({0, 9, 1, -5}, {2, 2});
  CHECK(message_of<UsageError>([&] { ops::embedding(table, ids).to_vector<float>(); }) ==
        "embedding: ids: expected ids from 0 to 3, got 9 at sample 0, position 1");
  CHECK(table.to_vector<float>() == std::vector<float>(12, 0));
  CHECK(message_of<UsageError>([&] {
          ops::cross_entropy(table, ids_on_device({kIgnoredTarget, 1, 3, -5}, {4})).item();
        }) == "cross_entropy: targets: expected ids from 0 to 2, got 3 at position 2");
  CHECK(message_of<UsageError>([&] {
          const Tensor found = ops::embedding(table, ids_on_device({1, -1}, {2}));
          copy(Tensor::empty(found.shape(), DType::f32, kCpu), found);
        }) == "embedding: ids: expected ids from 0 to 3, got -1 at position 1");
  CHECK(ops::cross_entropy(table, ids_on_device({0, 1, 2, kIgnoredTarget}, {4})).item() == Approx(std::log(3.0)));
}

TEST_CASE("ids: backward passes over bad ones touch nothing beyond their tensors", "[parallel]") {
  if (!on_cuda()) return;
  const Tensor all = Tensor::zeros({300, 8}, DType::f32, test_device());
  fill(all, 1);
  Tensor table = all.narrow(0, 100, 100);
  table.set_requires_grad();
  std::vector<std::int32_t> ids(1000), targets(1000);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = i % 3 == 0   ? 1'000'000
             : i % 3 == 1 ? -1 - static_cast<std::int32_t>(i)
                          : static_cast<std::int32_t>(i % 100);
    targets[i] = i % 2 == 0 ? 8 : static_cast<std::int32_t>(i % 8);
  }
  Tape tape;
  const TapeScope recording(&tape);
  backward(tape, ops::cross_entropy(ops::embedding(table, ids_on_device(ids, {1000})), ids_on_device(targets, {1000})));
  CHECK(message_of<UsageError>([&] { table.gradient().to_vector<float>(); }) ==
        "embedding: ids: expected ids from 0 to 99, got 1000000 at position 0");
  CHECK(all.to_vector<float>() == std::vector<float>(2400, 1));
}

TEST_CASE("ids: a run ends with the same error on all ranks", "[parallel]") {
  if (!on_cuda() && world().size() > 1) return;
  const TempFolder folder;
  nn::Gpt2 model(small_spec("gpt-tiny"));
  const std::string dir = world().group().broadcast_bytes(folder / "run", 0);
  Trainer trainer(world(), model,
                  {.train = {.steps = 9,
                             .micro_batch = 2,
                             .accum = 2,
                             .seq = kSeq,
                             .device = on_cuda() ? DeviceType::cuda : DeviceType::cpu},
                   .run = {.dir = dir}});
  Batches batches(trainer.batch_shape(), 4, kBadPlaces[0]);
  Size steps = 0;
  std::optional<UsageError> found;
  try {
    trainer.train(batches, [&](const TrainedStep& step) { steps = step.step; });
  } catch (const UsageError& error) {
    found = error;
  }
  CHECK(steps == 4);
  REQUIRE(found);
  CHECK(found->what() == std::string(kBadPlaces[0].message));
  if (!on_cuda()) return;
  CHECK(found->shared());
  CHECK(found->rank() == world().size() - 1);
}
