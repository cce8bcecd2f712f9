// Trains a GRU to add digits modulo 5, as a run of lt::Trainer. Started again after a kill, it continues.
//   mpirun -n 2 own_model zero3 runs/gru 400
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/kernels/random.h"
#include "libtrain/libtrain.h"

namespace nn = lt::nn;
namespace ops = lt::ops;
using lt::Size, lt::Tensor;

constexpr Size kDigits = 5, kLength = 10, kWidth = 64, kBlocks = 2, kGlobalBatch = 240;

// A gated recurrent unit (Cho et al. 2014), in the form of PyTorch's nn.GRU.
struct Gru : nn::Module {
  explicit Gru(Size width)
      : of_input(add<nn::Linear>("of_input", {.in = width, .out = 3 * width})),
        of_state(add<nn::Linear>("of_state", {.in = width, .out = 3 * width})) {}

  // x and the result are [samples, steps, width].
  Tensor forward(const Tensor& x) const {
    const Size samples = x.dim(0), width = x.dim(2);
    const Tensor inputs = of_input(x);  // of all steps in one multiplication
    Tensor state = Tensor::zeros({samples, width}, x.dtype(), x.device());
    std::vector<Tensor> states;
    for (Size step = 0; step < x.dim(1); ++step) {
      const Tensor input = ops::reshape(ops::slice(inputs, 1, step, 1), {samples, 3 * width});
      const std::vector<Tensor> a = ops::split(input, {width, width, width}, 1);
      const std::vector<Tensor> b = ops::split(of_state(state), {width, width, width}, 1);
      const Tensor reset = ops::sigmoid(a[0] + b[0]), update = ops::sigmoid(a[1] + b[1]);
      const Tensor candidate = ops::tanh(a[2] + reset * b[2]);
      state = candidate + update * (state - candidate);
      states.push_back(state);
    }
    return ops::stack(states, 1);
  }
  nn::Linear &of_input, &of_state;
};

// After each digit it predicts the sum of the digits so far, modulo kDigits.
struct Adder : nn::Model {
  // Units run in the order in which they are made.
  Adder() : embedding(add_unit<nn::Embedding>("embedding", {.count = kDigits, .width = kWidth})) {
    for (Size i = 0; i < kBlocks; ++i) blocks.push_back(&add_block<Gru>("blocks." + std::to_string(i), kWidth));
    head = &add_unit<nn::Linear>("head", {.in = kWidth, .out = kDigits});
  }

  Tensor loss(const lt::Batch& batch) override {
    Tensor x = run(embedding, &nn::Embedding::operator(), batch.inputs);
    for (const Gru* block : blocks) x = run(*block, &Gru::forward, x);
    const auto loss_of = [](const nn::Linear& classifier, const Tensor& states, const Tensor& sums) {
      return nn::cross_entropy(classifier(states), sums);
    };
    return run(*head, loss_of, x, batch.targets);
  }
  Size default_seq() const override { return kLength; }
  nn::ModelFacts facts(Size) const override { return {.name = "gru", .vocab = kDigits}; }

  nn::Embedding& embedding;
  std::vector<Gru*> blocks;
  nn::Linear* head;
};

// Sample i is a pure function of i, so every number of ranks trains on the same samples.
struct Sums : lt::BatchSource {
  explicit Sums(const lt::BatchShape& given) : shape(given) {}
  lt::Batch next() override {
    std::vector<std::int32_t> digits, sums;
    for (Size row = 0; row < shape.samples(); ++row) {
      std::uint32_t word = lt::philox_word(7, static_cast<std::uint64_t>(position + shape.sample_of(row))), sum = 0;
      for (Size step = 0; step < kLength; ++step, word /= kDigits) {
        sum += word % kDigits;
        digits.push_back(static_cast<std::int32_t>(word % kDigits));
        sums.push_back(static_cast<std::int32_t>(sum % kDigits));
      }
    }
    position += shape.global_samples();
    return {Tensor::from(digits, {shape.samples(), kLength}), Tensor::from(sums, {shape.samples(), kLength})};
  }
  void seek(Size samples) override { position = samples; }
  Size tokens() const override { return 0; }  // unknown: there is no end

  const lt::BatchShape shape;
  Size position = 0;
};

int main(int argc, char** argv) {
  return lt::run_program(argc, argv, [&](const lt::World& world) {
    if (argc < 3) throw lt::UsageError("own_model", "expected STRATEGY FOLDER [STEPS]");
    const lt::TrainerOptions options{
        .parallel = {.strategy = lt::find_strategy(argv[1]), .recompute = lt::Recompute::full},
        .train = {.steps = argc > 3 ? std::stol(argv[3]) : 400,
                  .micro_batch = kGlobalBatch / world.size(),
                  .global_batch = kGlobalBatch,
                  .device = lt::DeviceType::cpu},
        .optim = {.lr = 8e-3, .warmup = 10},
        .checkpoint = {.every = 50},
        .record = {.tensorboard = true},
        .run = {.dir = argv[2]}};
    const lt::Plan plan = lt::plan([] { return std::make_unique<Adder>(); }, options, world.size());
    if (world.rank() == 0) std::printf("planned peak %ld bytes a rank\n", plan.peak_bytes);

    Adder model;
    lt::Trainer trainer(world, model, options);
    Sums batches(trainer.batch_shape());
    const lt::ExitCode code = trainer.train(batches, [&](const lt::TrainedStep& step) {
      std::string& least = trainer.state()["least"];
      if (least.empty() || step.loss < std::stod(least)) least = std::to_string(step.loss);
      if (world.rank() != 0 || step.step != step.steps) return;
      std::printf("last loss %.4f, least %s\n", step.loss, least.c_str());
    });
    return static_cast<int>(code);
  });
}
