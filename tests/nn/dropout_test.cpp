// Dropout is a function of (seed, site, sample): the same wherever a sample is computed, and off outside training.
#include <cmath>

#include "libtrain/error.h"
#include "nn/passes.h"
#include "test_main/catch.h"
#include "test_main/worst_of.h"

using namespace lt;
using namespace lt_test;

namespace {

Tensor ones(Size samples) {
  return Tensor::from(std::vector<float>(static_cast<std::size_t>(samples * 600), 1.0f), {samples, 6, 100});
}

std::vector<float> dropped(Size first, Size samples, std::uint64_t seed = 1, std::string_view site = "blocks.0.ffn") {
  const nn::ForwardScope scope({true, seed, static_cast<std::uint64_t>(first), {}});
  return nn::dropout(ones(samples), 0.25, site).to_vector<float>();
}

}  // namespace

TEST_CASE("dropout of what has not the batch's samples is refused, and of nothing is nothing", "[nn]") {
  const nn::ForwardScope scope({.training = true, .seed = 1, .samples = 2});
  CHECK(nn::dropout(Tensor::zeros({2, 3, 6}, DType::f32), 0.25, "site").elements() == 36);
  CHECK_THROWS_WITH(nn::dropout(Tensor::zeros({6, 6}, DType::f32), 0.25, "site"),
                    "dropout: x: expected the batch's 2 samples in its first dimension, got shape [6, 6]");
  CHECK_THROWS_AS(nn::dropout(Tensor::zeros({}, DType::f32), 0.25, "site"), UsageError);
  CHECK(nn::dropout(Tensor::zeros({0, 6}, DType::f32), 0.25, "site").elements() == 0);
}

TEST_CASE("a sample's mask is the same in every batch that holds it", "[nn]") {
  const std::vector<float> whole = dropped(0, 8);
  for (const Size part : {1, 2, 3, 4}) {
    std::vector<float> pieces;
    for (Size first = 0; first < 8; first += part) {
      const std::vector<float> piece = dropped(first, std::min(part, 8 - first));
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    INFO("batches of " << part);
    CHECK(pieces == whole);
  }
  CHECK(dropped(0, 8, 2) != whole);
  CHECK(dropped(0, 8, 1, "blocks.1.ffn") != whole);
  CHECK(dropped(8, 8) != whole);
}

TEST_CASE("kept elements are scaled, the share of dropped ones is p", "[nn]") {
  const std::vector<float> values = dropped(0, 100);
  double zeros = 0;
  for (const float value : values) {
    if (value == 0) {
      ++zeros;
    } else {
      CHECK(value == Approx(1 / 0.75).epsilon(1e-6));
    }
  }
  const double n = static_cast<double>(values.size());
  CHECK(std::abs(zeros / n - 0.25) < 4 * std::sqrt(0.25 * 0.75 / n));  // four standard errors
}

TEST_CASE("without training there is no dropout", "[nn]") {
  const Tensor x = ones(2);
  CHECK(nn::dropout(x, 0.25, "site").is_same(x));
  const nn::ForwardScope evaluation({false, 1, 0, {}});
  CHECK(nn::dropout(x, 0.25, "site").is_same(x));
  const nn::ForwardScope training({true, 1, 0, {}});
  CHECK(nn::dropout(x, 0, "site").is_same(x));
  CHECK_FALSE(nn::dropout(x, 0.25, "site").is_same(x));
}

TEST_CASE("contexts nest", "[nn]") {
  CHECK_FALSE(nn::ForwardContext::current().training);
  const nn::ForwardScope outer({true, 1, 2, {.z_loss = 0.5}});
  {
    const nn::ForwardScope inner({false, 3, 4, {}});
    CHECK(nn::ForwardContext::current().seed == 3);
  }
  CHECK(nn::ForwardContext::current().seed == 1);
  CHECK(nn::ForwardContext::current().first_sample == 2);
  CHECK(nn::ForwardContext::current().loss.z_loss == 0.5);
}

TEST_CASE("a model's loss and gradients over a batch are the means over its samples, with dropout", "[nn]") {
  for (const std::string& family : family_names()) {
    nn::TransformerSpec spec = two_blocks(family);
    spec.dropout = 0.3;
    const auto model = model_of(spec, DType::f64);
    const Pass whole = run_pass(*model, tokens_of(4, 3, 10, spec.vocab), {true, 1, 4, {}});
    Pass mean;
    for (Size sample = 4; sample < 7; ++sample) {
      const Pass one =
          run_pass(*model, tokens_of(sample, 1, 10, spec.vocab), {true, 1, static_cast<std::uint64_t>(sample), {}});
      mean.loss += one.loss / 3;
      for (const auto& [name, gradient] : one.gradients) {
        auto& sum = mean.gradients[name];
        sum.resize(gradient.size());
        for (std::size_t i = 0; i < gradient.size(); ++i) sum[i] += gradient[i] / 3;
      }
    }
    CHECK(whole.loss == Approx(mean.loss).epsilon(1e-14));
    double worst = 0;
    for (const auto& [name, gradient] : whole.gradients) {
      for (std::size_t i = 0; i < gradient.size(); ++i)
        worst = worst_of(worst, std::abs(gradient[i] - mean.gradients.at(name)[i]));
    }
    CHECK(worst < 1e-14);
    const Pass still = run_pass(*model, tokens_of(4, 3, 10, spec.vocab));
    CHECK(still.loss != whole.loss);
  }
}
