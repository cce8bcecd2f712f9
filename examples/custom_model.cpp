// A model that is not a transformer, built from general operations: mixtures of experts (Jacobs et al. 1991) that learn
// to add two numbers modulo 31. Any model whose loss runs its units in order can train under every strategy.
//   mpirun -n 2 custom_model zero3
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "libtrain/kernels/random.h"
#include "libtrain/libtrain.h"
#include "libtrain/nn/layers.h"

namespace {

namespace nn = lt::nn;
namespace ops = lt::ops;
using lt::Size, lt::Tensor;

constexpr Size kModulus = 31, kWidth = 96, kExperts = 4, kHidden = 48;

// Two embedded numbers side by side.
struct Pair : nn::Module {
  Pair() : table(add<nn::Embedding>("table", kModulus, kWidth / 2, nn::Init::normal(0.5f))) {}
  Tensor forward(const Tensor& numbers) const { return ops::reshape(table(numbers), {numbers.dim(0), kWidth}); }
  nn::Embedding& table;
};

// x + the sum over experts e of p_e * down_e(relu(up_e(norm x))), with p = softmax(router(norm x)).
struct Mixture : nn::Module {
  Mixture()
      : norm(add<nn::RmsNorm>("norm", kWidth)),
        router(add<nn::Linear>("router", kWidth, kExperts, false, nn::Init::normal(0.1f))),
        up(add_parameter("up", {kExperts, kWidth, kHidden}, nn::Init::normal(0.1f))),
        down(add_parameter("down", {kExperts, kHidden, kWidth}, nn::Init::normal(0.1f))) {}
  Tensor forward(const Tensor& x) const {
    const Tensor y = norm(x), alone = ops::reshape(y, {1, x.dim(0), kWidth});
    const Tensor hidden = ops::relu(ops::matmul(ops::concat(std::vector(kExperts, alone), 0), up.tensor()));
    const Tensor shares = ops::transpose(ops::softmax(router(y)), 0, 1);  // [experts, samples]
    const Tensor weighted = ops::mul(ops::matmul(hidden, down.tensor()), ops::reshape(shares, {kExperts, x.dim(0), 1}));
    return ops::add(x, ops::sum(weighted, 0));
  }
  nn::RmsNorm& norm;
  nn::Linear& router;
  nn::Parameter &up, &down;
};

struct Classifier : nn::Module {
  Classifier() : linear(add<nn::Linear>("linear", kWidth, kModulus, true, nn::Init::normal(0.1f))) {}
  Tensor forward(const Tensor& x, const Tensor& targets) const { return nn::cross_entropy(linear(x), targets); }
  nn::Linear& linear;
};

struct Adder : nn::Model {
  Adder()
      : pair(add_unit<Pair>("pair")),
        first(add_block<Mixture>("blocks.0")),
        second(add_block<Mixture>("blocks.1")),
        classifier(add_unit<Classifier>("classifier")) {}

  // Each run() executes a unit: gathered before, freed after, recomputed if set. Bodies capture inputs by value.
  Tensor loss(const lt::Batch& batch) override {
    const Tensor numbers = batch.inputs, sums = batch.targets;
    Tensor x = run(pair, [=, this] { return pair.forward(numbers); });
    x = run(first, [=, this] { return first.forward(x); });
    x = run(second, [=, this] { return second.forward(x); });
    return run(classifier, [=, this] { return classifier.forward(x, sums); });
  }

  Pair& pair;
  Mixture &first, &second;
  Classifier& classifier;
};

// Sample i is a pair of numbers and their sum, a pure function of i, so every rank count sees the same batches.
lt::Batch make_batch(Size first, Size count) {
  std::vector<std::int32_t> numbers, sums;
  for (Size i = first; i < first + count; ++i) {
    const auto word = lt::philox_word(7, static_cast<std::uint64_t>(i));
    const auto a = static_cast<std::int32_t>(word % kModulus),
               b = static_cast<std::int32_t>(word / kModulus % kModulus);
    numbers.push_back(a), numbers.push_back(b), sums.push_back((a + b) % static_cast<std::int32_t>(kModulus));
  }
  return {Tensor::from(numbers, {count, 2}), Tensor::from(sums, {count})};
}

void train(const lt::World& world, const std::string& strategy, Size steps) {
  const Size global_batch = 240;
  Adder model;
  const lt::Device device = world.device();  // a GPU if there is one
  lt::Engine engine(
      model, world.group(device), {.strategy = lt::find_strategy(strategy), .recompute = lt::Recompute::full},
      lt::AdamW{.lr = 3e-3f, .weight_decay = 0.01f}, {.micro_batch = global_batch / world.size(), .device = device});
  const lt::BatchShape shape = engine.batch_shape();
  for (Size step = 1; step <= steps; ++step) {
    const Size first = engine.samples_done() + shape.rank * shape.samples();
    const lt::StepResult result = engine.step(make_batch(first, shape.samples()));
    if (world.rank() == 0 && (step == 1 || step % 50 == 0)) std::printf("step %ld loss %.4f\n", step, result.loss());
  }
}

}  // namespace

int main(int argc, char** argv) {
  return lt::run_program(argc, argv, [&](const lt::World& world) {
    train(world, argc > 1 ? argv[1] : "zero3", argc > 2 ? std::atol(argv[2]) : 400);
    return 0;
  });
}
