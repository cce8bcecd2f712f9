// A model that is not a transformer, and its data: mixtures of experts (Jacobs et al. 1991), built from general
// operations, that learn to add two numbers modulo 31. Any model whose loss runs its units in order can train under
// every strategy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libtrain/kernels/random.h"
#include "libtrain/libtrain.h"
#include "libtrain/nn/layers.h"

namespace adder {

namespace nn = lt::nn;
namespace ops = lt::ops;
using lt::Size, lt::Tensor;

constexpr Size kModulus = 31;

struct Shape {
  Size blocks = 2, width = 96, experts = 4, hidden = 48;
};

// Embeds two numbers and concatenates them.
struct Pair : nn::Module {
  explicit Pair(const Shape& shape)
      : table(add<nn::Embedding>("table",
                                 {.count = kModulus, .width = shape.width / 2, .init = nn::Init::normal(0.5f)})) {}
  Tensor forward(const Tensor& numbers) const {
    const Tensor pairs = table(numbers);  // [samples, 2, width / 2]
    return ops::reshape(pairs, {pairs.dim(0), 2 * pairs.dim(2)});
  }
  nn::Embedding& table;
};

// x + the sum over experts e of p_e * down_e(relu(up_e(norm x))), with p = softmax(router(norm x)).
struct Mixture : nn::Module {
  explicit Mixture(const Shape& shape)
      : norm(add<nn::RmsNorm>("norm", {.width = shape.width})),
        router(add<nn::Linear>(
            "router", {.in = shape.width, .out = shape.experts, .bias = false, .init = nn::Init::normal(0.1f)})),
        up(add_parameter("up", {shape.experts, shape.width, shape.hidden}, nn::Init::normal(0.1f))),
        down(add_parameter("down", {shape.experts, shape.hidden, shape.width}, nn::Init::normal(0.1f))) {}
  Tensor forward(const Tensor& x) const {
    const Size samples = x.dim(0), experts = up.shape()[0];
    const Tensor y = norm(x), alone = ops::reshape(y, {1, samples, x.dim(1)});
    const Tensor hidden =
        ops::relu(ops::matmul(ops::concat(std::vector(static_cast<std::size_t>(experts), alone), 0), up.tensor()));
    const Tensor shares = ops::transpose(ops::softmax(router(y)), 0, 1);  // [experts, samples]
    const Tensor weighted = ops::matmul(hidden, down.tensor()) * ops::reshape(shares, {experts, samples, 1});
    return x + ops::sum(weighted, 0);
  }
  nn::RmsNorm& norm;
  nn::Linear& router;
  nn::Parameter &up, &down;
};

struct Classifier : nn::Module {
  explicit Classifier(const Shape& shape)
      : linear(add<nn::Linear>("linear", {.in = shape.width, .out = kModulus, .init = nn::Init::normal(0.1f)})) {}
  Tensor forward(const Tensor& x, const Tensor& targets) const { return nn::cross_entropy(linear(x), targets); }
  nn::Linear& linear;
};

struct Adder : nn::Model {
  // Throws UsageError if the width is odd.
  explicit Adder(const Shape& given = {}) : shape(given), pair(add_unit<Pair>("pair", given)) {
    if (shape.width % 2 != 0) {
      throw lt::UsageError("model", "width", "an even number", std::to_string(shape.width));
    }
    for (Size i = 0; i < shape.blocks; ++i) {
      blocks.push_back(&add_block<Mixture>("blocks." + std::to_string(i), shape));
    }
    classifier = &add_unit<Classifier>("classifier", shape);
  }

  // Each run() executes one unit. The engine gathers the unit's parameters before, frees them after, and recomputes the
  // unit if so configured.
  Tensor loss(const lt::Batch& batch) override {
    Tensor x = run(pair, &Pair::forward, batch.inputs);
    for (const Mixture* block : blocks) x = run(*block, &Mixture::forward, x);
    return run(*classifier, &Classifier::forward, x, batch.targets);
  }

  lt::nn::ModelFacts facts(Size) const override {
    const std::string mixtures = std::to_string(shape.blocks) + " mixtures";
    return {.name = "adder " + mixtures,
            .details = "adder: " + mixtures + " of " + std::to_string(shape.experts) + " experts, width " +
                       std::to_string(shape.width)};
  }
  // Two numbers and one target per sample.
  lt::Batch batch_on_meta(Size samples, Size) const override {
    return {Tensor::empty({samples, 2}, lt::DType::i32, lt::kMeta),
            Tensor::empty({samples}, lt::DType::i32, lt::kMeta)};
  }
  Size default_seq() const override { return 1; }  // a sample is no sequence

  const Shape shape;
  Pair& pair;
  std::vector<Mixture*> blocks;
  Classifier* classifier;
};

// Returns this rank's rows of the step that begins at sample `position`. Sample i is a pair of numbers and their sum, a
// pure function of i and the seed, so every rank count sees the same batches.
inline lt::Batch make_batch(const lt::BatchShape& shape, Size position, Size seed = 7) {
  std::vector<std::int32_t> numbers, sums;
  for (Size row = 0; row < shape.samples(); ++row) {
    const auto word =
        lt::philox_word(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(position + shape.sample_of(row)));
    const auto a = static_cast<std::int32_t>(word % kModulus),
               b = static_cast<std::int32_t>(word / kModulus % kModulus);
    numbers.push_back(a), numbers.push_back(b), sums.push_back((a + b) % static_cast<std::int32_t>(kModulus));
  }
  return {Tensor::from(numbers, {shape.samples(), 2}), Tensor::from(sums, {shape.samples()})};
}

// This rank's pairs of each step.
class Pairs : public lt::BatchSource {
 public:
  explicit Pairs(const lt::BatchShape& shape, Size seed = 7) : shape_(shape), seed_(seed) {}
  lt::Batch next() override {
    const lt::Batch batch = make_batch(shape_, position_, seed_);
    position_ += shape_.global_samples();
    return batch;
  }
  void seek(Size samples) override { position_ = samples; }
  Size tokens() const override { return 0; }

 private:
  lt::BatchShape shape_;
  Size seed_;
  Size position_ = 0;
};

}  // namespace adder
