// lt::Trainer: a run that starts from another run's weights, frozen parameters, and models that do not match
// model.from.
#include "libtrain/run/trainer.h"

#include <memory>
#include <string>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/nn/layers.h"
#include "libtrain/nn/models.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"
#include "test_main/world.h"

using namespace lt;
using lt_test::TempFolder;

namespace {

struct Line : nn::Model {
  struct Layer : nn::Module {
    Layer() : linear(add<nn::Linear>("linear", {.in = 4, .out = 4, .init = nn::Init::normal(0.5f)})) {}
    nn::Linear& linear;
  };
  Line() : first(add_unit<Layer>("first")), last(add_unit<Layer>("last")) {}
  Tensor loss(const Batch& batch) override {
    const auto loss_of = [this](const Tensor& x, const Tensor& targets) {
      return nn::cross_entropy(last.linear(x), targets);
    };
    const Tensor x = run(
        first, [this](const Tensor& inputs) { return first.linear(inputs); }, batch.inputs);
    return run(last, loss_of, x, batch.targets);
  }
  Batch batch_on_meta(Size samples, Size) const override {
    return {Tensor::empty({samples, 4}, DType::f32, kMeta), Tensor::empty({samples}, DType::i32, kMeta)};
  }
  Size default_seq() const override { return seq; }
  Size seq = 1;
  Layer &first, &last;
};

struct Ones : BatchSource {
  Batch next() override {
    return {Tensor::from(std::vector<float>{1, 2, 3, 4}, {1, 4}), Tensor::from(std::vector<std::int32_t>{1}, {1})};
  }
  void seek(Size) override {}
  Size tokens() const override { return 0; }
};

TrainerOptions options_in(const std::string& folder) {
  return {
      .train = {.steps = 3, .micro_batch = 1, .device = DeviceType::cpu}, .optim = {.lr = 0.1}, .run = {.dir = folder}};
}

void train(const TrainerOptions& options) {
  Line model;
  Ones batches;
  const ExitCode code = Trainer(lt_test::world(), model, options).train(batches);
  CHECK(code == ExitCode::ok);
}

std::vector<float> weights_of(const std::string& run, const std::string& parameter) {
  return checkpoint::read_tensor(checkpoint::newest(run + "/checkpoints", nullptr), parameter);
}

}  // namespace

TEST_CASE(
    "Trainer: a run begins from the weights of another, leaves frozen parameters as they are, and trains them again",
    "[train]") {
  const TempFolder folder;
  const std::string first = folder / "first", second = folder / "second";
  train(options_in(first));
  TrainerOptions options = options_in(second);
  options.model = {.from = first, .freeze = {"first.*"}};
  train(options);
  for (const char* kept : {"first.linear.weight", "first.linear.bias"}) {
    CHECK(weights_of(second, kept) == weights_of(first, kept));
  }
  CHECK(weights_of(second, "last.linear.weight") != weights_of(first, "last.linear.weight"));

  options = options_in(folder / "third");
  options.model.from = second;
  train(options);
  CHECK(weights_of(folder / "third", "first.linear.weight") != weights_of(second, "first.linear.weight"));

  options.run.dir = folder / "fourth", options.model.from = folder / "nowhere";
  CHECK_THROWS_WITH(train(options), "model.from " + options.model.from + ": no such file or folder");
}

TEST_CASE("Trainer: the length of samples is the model's unless it is given, and an error where neither says it",
          "[train]") {
  const TempFolder folder;
  Line model;
  TrainerOptions options = options_in(folder / "run");
  const auto seq_of = [&] { return Trainer(lt_test::world(), model, options).batch_shape().seq; };
  CHECK(seq_of() == 1);
  model.seq = 5;
  CHECK(seq_of() == 5);
  model.seq = 0;
  CHECK_THROWS_WITH(seq_of(), "train.seq: expected the tokens of a sample, got none");
  const auto make = [] {
    auto made = std::make_unique<Line>();
    made->seq = 0;
    return made;
  };
  CHECK_THROWS_WITH(plan(make, options, 1), "train.seq: expected the tokens of a sample, got none");
  options.train.seq = 3;
  CHECK(seq_of() == 3);
  CHECK(plan(make, options, 1).seq == 3);
}

TEST_CASE("Trainer: a plan for a GPU, or for a machine that is given, replaces train.device", "[train]") {
  TrainerOptions options;
  options.train.dtype = Precision::f32;  // of the batches, which Line does not cast
  const auto peak = [&](std::optional<DeviceType> device, const PlanMachine& machine) {
    options.train.device = device;
    const Plan found = plan([] { return std::make_unique<Line>(); }, options, 1, machine);
    CHECK((found.device_bytes > 0) == (machine.device != "cpu"));
    return found.peak_bytes;
  };
  const Size on_cpu = peak(DeviceType::cpu, {}), on_gpu = peak(DeviceType::cuda, {.device = "h100"});
  CHECK(on_gpu != on_cpu);
  CHECK(peak(DeviceType::cpu, {.device = "h100"}) == on_gpu);
  CHECK(peak({}, {.device = "h100"}) == on_gpu);
  CHECK(peak(DeviceType::cuda, {.device = "cpu", .is_given = true}) == on_cpu);
}

TEST_CASE("Trainer: a program's transformer must be that of model.from, also where it lacks something", "[train]") {
  struct Tokens : BatchSource {
    Batch next() override {
      const std::vector<std::int32_t> ids(8, 1);
      return {Tensor::from(ids, {1, 8}), Tensor::from(ids, {1, 8})};
    }
    void seek(Size) override {}
    Size tokens() const override { return 0; }
  };
  const auto train_with = [](Size window, const TrainerOptions& options) {
    nn::TransformerSpec spec = nn::preset("llama-tiny");
    spec.family = "mistral", spec.layers = 1, spec.max_seq = 8, spec.window = window;
    const auto model = nn::make_transformer(spec);
    Tokens batches;
    return Trainer(lt_test::world(), *model, options).train(batches);
  };
  const TempFolder folder;
  TrainerOptions options = options_in(folder / "first");
  CHECK(train_with(4, options) == ExitCode::ok);
  options.model.from = options.run.dir, options.run.dir = folder / "second";
  CHECK_THROWS_WITH(train_with(0, options),
                    "model.window: expected 4, as model.from " + options.model.from + " has, got 0 (from the program)");
  CHECK(train_with(4, options) == ExitCode::ok);
}
