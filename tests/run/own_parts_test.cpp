// What a program gives a trainer in place of keys: optimizers, a schedule, evaluation batches, a console, and a step
// callback that stops the run.
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/error.h"
#include "libtrain/generate/generate.h"
#include "libtrain/nn/layers.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/run/trainer.h"
#include "run/evaluation.h"
#include "run/metrics_rows.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"
#include "test_main/world.h"

using namespace lt;
using Catch::Matchers::ContainsSubstring;
using lt_test::rows_of, lt_test::world;
using Steps = std::vector<Size>;

namespace {

constexpr Size kSamples = 6;  // of a step, over all ranks

// Fits y = 2 x_0 - x_1. Its targets are no classes.
struct Fit : nn::Model {
  struct Layer : nn::Module {
    Layer() : linear(add<nn::Linear>("linear", {.in = 2, .out = 1, .init = nn::Init::normal(0.5f)})) {}
    nn::Linear& linear;
  };
  Fit() : only(add_unit<Layer>("only")) {}
  Tensor loss(const Batch& batch) override {
    const auto loss_of = [this](const Tensor& inputs, const Tensor& targets) {
      const Tensor error = only.linear(inputs) - targets;
      return ops::mean(error * error);
    };
    return run(only, loss_of, batch.inputs, batch.targets);
  }
  Size default_seq() const override { return 1; }
  Batch batch_on_meta(Size samples, Size) const override {
    return {Tensor::empty({samples, 2}, DType::f32, kMeta), Tensor::empty({samples, 1}, DType::f32, kMeta)};
  }
  Layer& only;
};

Batch samples_from(Size first, const BatchShape& shape) {
  std::vector<float> x, y;
  const Size count = shape.samples();
  for (Size row = 0; row < count; ++row) {
    const auto i = static_cast<float>(first + shape.sample_of(row));
    x.push_back(std::sin(i)), x.push_back(std::cos(3 * i));
    y.push_back(2 * x[x.size() - 2] - x.back());
  }
  return {Tensor::from(x, {count, 2}), Tensor::from(y, {count, 1})};
}

Batch samples_from(Size first, Size count) { return samples_from(first, {.micro_batch = count}); }

struct Points : BatchSource {
  explicit Points(const BatchShape& given) : shape(given) {}
  Batch next() override {
    const Size first = position;
    position += shape.global_samples();
    return samples_from(first, shape);
  }
  void seek(Size samples) override { position = samples; }
  Size tokens() const override { return 0; }
  const BatchShape shape;
  Size position = 0;
};

// Rank 0's folder, shared by all ranks. It is removed when all ranks are done with it.
class SharedFolder {
 public:
  SharedFolder() : path_(world().group().broadcast_bytes(own_.text(), 0)) {}
  ~SharedFolder() { world().group().barrier(); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  lt_test::TempFolder own_;
  std::string path_;
};

TrainerOptions options_in(const std::string& folder, Size steps) {
  return {.train = {.steps = steps, .micro_batch = kSamples / world().size(), .device = DeviceType::cpu},
          .run = {.dir = folder}};
}

ExitCode train(const TrainerOptions& options, const StepCallback& on_step = {}) {
  Fit model;
  Trainer trainer(world(), model, options);
  Points batches(trainer.batch_shape());
  return trainer.train(batches, on_step);
}

std::string error_of(const TrainerOptions& options) {
  try {
    train(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

// Gradient descent without a state.
Optimizer descent() {
  Optimizer row{.name = "descent"};
  row.update = [](const UpdateRange& range) {
    if (range.weights.device().is_meta() || range.numbers->skip != 0) return;
    float* const w = range.weights.data<float>();
    const float* const g = range.gradient.data<float>();
    for (Size i = 0; i < range.weights.elements(); ++i)
      w[i] -= range.numbers->lr * range.numbers->gradient_scale * g[i];
  };
  return row;
}

double falling(Size step) { return 0.1 / static_cast<double>(step); }

Steps saved_in(const std::string& run_dir) {
  Steps steps;
  for (const checkpoint::Listing& entry : checkpoint::list(run_dir + "/checkpoints", true)) steps.push_back(entry.step);
  return steps;
}

std::vector<float> weights_of(const std::string& run_dir) {
  return checkpoint::read_tensor(checkpoint::newest(run_dir + "/checkpoints"), "only.linear.weight");
}

}  // namespace

TEST_CASE("own parts: optimizers and a schedule train as in a loop on the engine", "[train]") {
  const SharedFolder folder;
  TrainerOptions options = options_in(folder / "run", 4);
  options.parallel.strategy = Strategy::zero3;
  options.optim.clip = 0.5;
  options.optimizers = {{"*.bias", descent(), 0.5}, {"*", descent()}};
  options.schedule = falling;
  std::vector<double> rates;
  CHECK(train(options, [&](const TrainedStep& step) { rates.push_back(step.lr); }) == ExitCode::ok);
  CHECK(rates == std::vector<double>{falling(1), falling(2), falling(3), falling(4)});

  Fit model;
  const EngineOptions step{.micro_batch = kSamples / world().size()};
  Engine engine(model, world().group(), {.strategy = Strategy::zero3}, OptimizerGroups(options.optimizers, 0, 0.5),
                step);
  Points batches(engine.batch_shape());
  for (Size n = 1; n <= 4; ++n) {
    engine.set_learning_rate(falling(n));
    engine.step(batches.next());
  }
  engine.with_parameters([&] { CHECK(model.only.linear.weight().to_vector<float>() == weights_of(folder / "run")); });

  if (world().rank() == 0) {
    const std::string config = lt_test::read_text(folder / "run/config.toml");
    CHECK_THAT(config, ContainsSubstring("[optim]\nname = \"own:descent\"\n# lr = (the program's own)\n"));
    CHECK_THAT(config, ContainsSubstring("# beta1 = (the program's own)\n"));
    CHECK_THAT(config, ContainsSubstring("clip = 0.5\n"));
    CHECK(config_from_toml(config, "config.toml").optim.name == "own:descent");  // other programs read it
    CHECK_THAT(lt_test::read_text(folder / "run/log.txt"),
               ContainsSubstring("optimizer: descent of the program\nlearning rate: by a schedule of the program\n"));
    const Plan planned = plan([] { return std::make_unique<Fit>(); }, options, world().size());
    CHECK(rows_of(folder / "run")[0]["predicted_peak_bytes"] == planned.peak_bytes);
    TrainerOptions with_adamw = options;
    with_adamw.optimizers.clear();
    CHECK(plan([] { return std::make_unique<Fit>(); }, with_adamw, world().size()).peak_bytes > planned.peak_bytes);
  }

  // The run continues with the same parts alone.
  options.train.steps = 5;
  TrainerOptions other = options;
  other.optimizers.clear();
  CHECK_THAT(error_of(other),
             ContainsSubstring("has another configuration: optim.name: \"own:descent\" there, \"adamw\" now"));
  other = options, other.schedule = {};
  CHECK_THAT(error_of(other),
             ContainsSubstring("schedule: the program's own there, that of the other keys of [optim] now"));
  rates.clear();
  CHECK(train(options, [&](const TrainedStep& step) { rates.push_back(step.lr); }) == ExitCode::ok);
  CHECK(rates == std::vector<double>{falling(5)});
}

TEST_CASE("own parts: an average of the weights is kept beside own optimizers", "[train]") {
  const SharedFolder folder;
  TrainerOptions options = options_in(folder / "run", 2);
  options.optim.ema = 0.5;
  options.optimizers = {{"*", descent()}};
  CHECK(train(options) == ExitCode::ok);
  const std::string step = checkpoint::newest(folder / "run/checkpoints");
  CHECK(checkpoint::read_tensor(step, "only.linear.weight", kAverage) != weights_of(folder / "run"));
}

TEST_CASE("own parts: what is given twice, or is not whole, is refused", "[train]") {
  const SharedFolder folder;
  const TrainerOptions plain = options_in(folder / "run", 2);
  TrainerOptions options = plain;
  options.optimizers = {{"*", descent()}};
  options.optim.beta1 = 0.5;
  CHECK(error_of(options) == "optim.beta1: expected its default 0.9 with optimizers of the program's own, got 0.5");
  options = plain, options.optimizers = {{"*", descent()}}, options.optim.name = "muon";
  CHECK(error_of(options) ==
        "optim.name: expected its default \"adamw\" with optimizers of the program's own, got \"muon\"");
  options = plain, options.optim.name = "own:descent";
  CHECK(error_of(options) == "optim.name: expected one of adamw, muon, got own:descent");
  options = plain, options.schedule = falling, options.optim.lr = 1;
  CHECK(error_of(options) == "optim.lr: expected its default 0.0003 with a schedule of the program's own, got 1.0");
  options = plain, options.run.dir = folder / "negative", options.schedule = [](Size) { return -1.0; };
  CHECK(error_of(options) == "learning rate: expected a number from 0 on, got -1.000000");
  options = plain, options.optimizers = {{"*", {.name = "nothing"}}};
  CHECK(error_of(options) == "optimizer \"nothing\": update: expected a function, found none");
  options = plain, options.evaluation.batch = [](Size) { return samples_from(0, 1); };
  CHECK(error_of(options) == "evaluation.count: expected at least 1, got 0");
  options.evaluation.count = 1, options.data.val = {"val.bin"};
  CHECK(error_of(options) ==
        "data.val: expected its default [] with evaluation batches of the program's own, got [\"val.bin\"]");
  options.data.val.clear();
  CHECK(error_of(options) == "train.eval_every: expected at least 1 with evaluation batches, got 0");
  options = plain, options.evaluation.count = 1;
  CHECK(error_of(options) == "evaluation.batch: expected a function that returns the batches, got none");
  options = plain, options.train.eval_every = 1;
  CHECK_THAT(error_of(options),
             ContainsSubstring("train.eval_every: expected 0 with a model whose batches are not token"));
  options.evaluation = {2, [](Size) { return samples_from(0, 7); }};
  CHECK_THAT(error_of(options), ContainsSubstring("evaluation: expected train.micro_batch ") &&
                                    ContainsSubstring(" samples in batch ") && ContainsSubstring("got inputs [7, 2]"));
}

TEST_CASE("own parts: evaluation batches have one loss at every rank count", "[train]") {
  // The loss of batch i is a function of i, as a model's is. The ranks run side by side.
  const EvaluationBatches own{7, [](Size index) { return samples_from(index, 2); }};
  const auto loss_of = [](const Batch& batch) {
    const float x = batch.inputs.to_vector<float>()[0];
    return BatchLoss{std::exp(static_cast<double>(x)), 2};
  };
  std::vector<double> losses;
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (int rank = 0; rank < ranks; ++rank) {
      Size first = 0;
      const run::Evaluation found = run::evaluate(own, 2, rank, ranks, [&](const Batch& batch) {
        std::vector<BatchLoss> all;
        for (int r = 0; r < ranks; ++r) all.push_back(loss_of(own.batch(std::min<Size>(first + r, own.count - 1))));
        if (first + rank < own.count) CHECK(loss_of(batch).loss == all[static_cast<std::size_t>(rank)].loss);
        first += ranks;
        return all;
      });
      losses.push_back(found.loss.value());
      CHECK(found.loss.counted() == 14);
      CHECK(found.batches == 7);
    }
  }
  CHECK(std::ranges::count(losses, losses[0]) == static_cast<std::ptrdiff_t>(losses.size()));
}

TEST_CASE("own parts: a model without token files is evaluated, and its best checkpoint is kept", "[train]") {
  const SharedFolder folder;
  TrainerOptions options = options_in(folder / "run", 7);
  const Size micro_batch = options.train.micro_batch;
  options.train.eval_every = 2;
  options.checkpoint = {.every = 1, .keep = 2, .best = true};
  options.schedule = [](Size step) { return step <= 4 ? 0.3 : 3; };  // gets worse after step 4
  options.evaluation = {5, [=](Size index) { return samples_from(1000 + index * micro_batch, micro_batch); }};
  std::vector<double> losses;
  Steps evaluated;
  CHECK(train(options, [&](const TrainedStep& step) {
          if (!step.eval_loss) return;
          evaluated.push_back(step.step), losses.push_back(*step.eval_loss);
        }) == ExitCode::ok);
  CHECK(evaluated == Steps{2, 4, 6});
  if (evaluated.size() != 3) return;
  CHECK(losses[1] < std::min(losses[0], losses[2]));
  CHECK(saved_in(folder / "run") == Steps{4, 6, 7});

  std::vector<double> recorded;
  for (const nlohmann::json& row : rows_of(folder / "run")) {
    if (row.value("event", "") != "eval") continue;
    recorded.push_back(row["loss"].get<double>());
    CHECK(row["batches"] == 5);
    CHECK(row["tokens"] == 5 * micro_batch);
  }
  CHECK(recorded == losses);
  Fit model;
  load_weights(model, folder / "run/checkpoints/step-00000006");
  double sum = 0;
  for (Size i = 0; i < 5; ++i) sum += model.loss(options.evaluation.batch(i)).item();
  CHECK_THAT(losses[2], Catch::Matchers::WithinRel(sum / 5, 1e-6));
}

TEST_CASE("own parts: the callback of any rank stops all ranks after the same step", "[train]") {
  const SharedFolder folder;
  TrainerOptions options = options_in(folder / "run", 9);
  options.checkpoint.async = true;
  const bool is_last = world().rank() == world().size() - 1;
  Steps seen;
  const StepCallback stops = [&](const TrainedStep& step) {
    seen.push_back(step.step);
    return step.step != 3;
  };
  const StepCallback watches = [&](const TrainedStep& step) { seen.push_back(step.step); };
  CHECK(train(options, is_last ? stops : watches) == ExitCode::ok);
  CHECK(seen == Steps{1, 2, 3});
  CHECK(saved_in(folder / "run") == Steps{3});
  const nlohmann::json end = rows_of(folder / "run").back();
  CHECK(end["reason"] == "program");
  CHECK_THAT(lt_test::read_text(folder / "run/log.txt"), ContainsSubstring("stopped by the program: 3 steps in "));
  // A later start continues. The program's wish after the last step changes nothing.
  CHECK(train(options, [](const TrainedStep& step) { return step.step < 9; }) == ExitCode::ok);
  CHECK(rows_of(folder / "run").back()["reason"] == "steps");
  CHECK(saved_in(folder / "run") == Steps{3, 9});
}

TEST_CASE("own parts: a run stops on the loss of an evaluation, with that step's state", "[train]") {
  const SharedFolder folder;
  TrainerOptions options = options_in(folder / "run", 9);
  const Size micro_batch = options.train.micro_batch;
  options.train.eval_every = 2;
  options.evaluation = {3, [=](Size index) { return samples_from(index * micro_batch, micro_batch); }};
  Fit model;
  Trainer trainer(world(), model, options);
  Points batches(trainer.batch_shape());
  CHECK(trainer.train(batches, [&](const TrainedStep& step) {
    if (step.eval_loss) trainer.state()["evaluations"] += "x";
    return trainer.state()["evaluations"] != "xx";
  }) == ExitCode::ok);
  CHECK(saved_in(folder / "run") == Steps{4});
  const checkpoint::RunState state = checkpoint::read_state(checkpoint::newest(folder / "run/checkpoints"));
  CHECK(state.program == State{{"evaluations", "xx"}});
  CHECK(state.eval_loss.has_value());
}

TEST_CASE("own parts: the state of rank 0 continues on every rank, from disk and from memory", "[train]") {
  for (const bool in_memory : {false, true}) {
    const SharedFolder folder;
    TrainerOptions options = options_in(folder / "run", 6);
    options.checkpoint.every = in_memory ? 0 : 2;
    options.checkpoint.memory_every = in_memory ? 1 : 0;
    Size continued_from = 0;
    const auto train_from = [&](Size end) {
      struct End {};
      Fit model;
      Trainer trainer(world(), model, options);
      Points batches(trainer.batch_shape());
      std::string found;  // before the first step
      try {
        trainer.train(batches, [&](const TrainedStep& step) {
          std::string& seen = trainer.state()["seen"];
          if (found.empty()) found = seen.empty() ? "none" : seen, continued_from = step.step - 1;
          if (step.step > end) throw End();
          seen = std::to_string(step.step) + " of rank " + std::to_string(world().rank());
        });
      } catch (const End&) {
      }
      return found;
    };
    CHECK(train_from(3) == "none");
    const std::string found = train_from(6);
    CHECK(found == std::to_string(continued_from) + " of rank 0");
    // The copy of step 3 may still be under way when step 4 ends the run.
    CHECK((continued_from == 2 || (in_memory && continued_from == 3)));
    for (const checkpoint::Listing& entry : checkpoint::list(folder / "run/checkpoints", false)) {
      CHECK(checkpoint::read_state(entry.path).program == State{{"seen", std::to_string(entry.step) + " of rank 0"}});
    }
  }
}

TEST_CASE("own parts: the console's lines go to the program, on rank 0", "[train]") {
  const SharedFolder folder;
  TrainerOptions options = options_in(folder / "run", 2);
  std::string lines;
  options.console = [&](std::string_view line) { lines += std::string(line) + "\n"; };
  CHECK(train(options) == ExitCode::ok);
  CHECK(lines == (world().rank() == 0 ? lt_test::read_text(folder / "run/log.txt") : ""));
}

TEST_CASE("own parts: step callbacks are functions that return nothing or a bool", "[train]") {
  CHECK_FALSE(StepCallback());
  CHECK_FALSE(StepCallback(std::function<void(const TrainedStep&)>()));
  int calls = 0;
  const StepCallback counts = [&](const TrainedStep&) { ++calls; }, stops = [](const TrainedStep&) { return false; };
  CHECK(counts({}));
  CHECK(calls == 1);
  CHECK_FALSE(counts.may_stop());
  CHECK(stops.may_stop());
  CHECK_FALSE(stops({}));
}
