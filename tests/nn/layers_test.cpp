// Layers and their options: convolution, dropout by the module's path, chains, initial values, errors.
#include "libtrain/nn/layers.h"

#include <cmath>
#include <string>
#include <vector>

#include "libtrain/error.h"
#include "nn/passes.h"
#include "ops/gradient_check.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;
using Padding = nn::Conv1d::Padding;

namespace {

// Binds `weight`, and `bias` if it is defined, to the parameters of a layer.
void bind(const nn::Module& layer, const Tensor& weight, const Tensor& bias = {}) {
  const std::vector<nn::NamedParameter> parameters = layer.parameters();
  parameters[0].parameter->bind(weight);
  if (bias.defined()) parameters[1].parameter->bind(bias);
}

std::vector<std::string> names_of(const nn::Model& model) {
  std::vector<std::string> names;
  for (const nn::NamedParameter& entry : model.all_parameters()) names.push_back(entry.name);
  return names;
}

struct Mlp : nn::Sequential {
  Mlp() {
    append<nn::Linear>({.in = 3, .out = 5, .init = nn::Init::normal(1)});
    append(ops::relu).append<nn::Dropout>({.p = 0.25}).append<nn::Linear>({.in = 5, .out = 2, .bias = false});
  }
};

struct Block : nn::Module {
  Block() : mlp(add<Mlp>("mlp")), drop(add<nn::Dropout>("drop", {.p = 0.25})) {}
  Mlp& mlp;
  nn::Dropout& drop;
};

struct Chained final : nn::Model {
  Chained() : block(add_block<Block>("blocks.0")), head(add_unit<nn::Linear>("head", {.in = 2, .out = 1})) {}
  Tensor loss(const Batch& batch) override {
    const Tensor y = run(
        block, [this](const Tensor& x) { return block.mlp(x); }, batch.inputs);
    return run(
        head, [this](const Tensor& x) { return ops::mean(head(x)); }, y);
  }
  Block& block;
  nn::Linear& head;
};

struct Late : nn::Model {
  Late() { add_unit<nn::Sequential>("late").append<nn::Linear>({.in = 1, .out = 1}); }
  Tensor loss(const Batch&) override { return {}; }
};

std::string refusal(const std::function<void()>& make) {
  try {
    make();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("Conv1d: values of every padding, and gradients of x, weight and bias", "[nn]") {
  const Size S = 2, L = 5, C = 3, N = 4;
  for (const Size kernel : {1, 2, 3, 4}) {
    for (const Padding padding : {Padding::none, Padding::same, Padding::causal}) {
      CAPTURE(kernel, static_cast<int>(padding));
      const nn::Conv1d conv({.in = C, .out = N, .kernel = kernel, .padding = padding});
      const Tensor x = normal({S, L, C}, 1), weight = normal({N, kernel * C}, 2), bias = normal({N}, 3);
      bind(conv, weight, bias);
      const Size left = padding == Padding::none ? 0 : padding == Padding::same ? (kernel - 1) / 2 : kernel - 1;
      const Size length = padding == Padding::none ? L - kernel + 1 : L;
      const auto xs = x.to_vector<double>(), ws = weight.to_vector<double>(), bs = bias.to_vector<double>();
      const auto at = [](const std::vector<double>& values, Size i) { return values[static_cast<std::size_t>(i)]; };
      std::vector<double> expected;
      for (Size s = 0; s < S; ++s) {
        for (Size t = 0; t < length; ++t) {
          for (Size o = 0; o < N; ++o) {
            double sum = at(bs, o);
            for (Size k = 0; k < kernel; ++k) {
              const Size from = t + k - left;
              if (from < 0 || from >= L) continue;
              for (Size c = 0; c < C; ++c) sum += at(ws, (o * kernel + k) * C + c) * at(xs, (s * L + from) * C + c);
            }
            expected.push_back(sum);
          }
        }
      }
      check_equal(conv(x), Tensor::from(expected, {S, length, N}), 1e-14);
      check_gradient(
          [&](auto& in) {
            bind(conv, in[1], in[2]);
            return conv(in[0]);
          },
          {x, weight, bias});
    }
  }
  const nn::Conv1d plain({.in = C, .out = N, .kernel = 3, .bias = false});
  bind(plain, normal({N, 3 * C}, 2));
  CHECK(plain(normal({S, 3, C}, 1)).shape() == Shape{S, 1, N});
  CHECK_THROWS_WITH(plain(normal({S, 2, C}, 1)),
                    "Conv1d: x: expected shape [samples, length, 3] with a length of at least 3, got [2, 2, 3]");
  CHECK_THROWS_AS(plain(normal({S, C}, 1)), UsageError);
}

TEST_CASE("Sequential: stages in order, named by their numbers, within a model", "[nn]") {
  Chained model;
  CHECK(names_of(model) == std::vector<std::string>{"blocks.0.mlp.0.weight", "blocks.0.mlp.0.bias",
                                                    "blocks.0.mlp.3.weight", "head.weight", "head.bias"});
  CHECK(model.block.mlp.path() == "blocks.0.mlp");
  CHECK(model.all_parameters()[2].parameter->is_block_matrix());
  model.materialize(kCpu, DType::f64, kSeed);
  const auto parameters = model.all_parameters();
  const Tensor x = normal({4, 3}, 1);
  const Tensor hidden = ops::relu(ops::linear(x, parameters[0].parameter->tensor(), parameters[1].parameter->tensor()));
  CHECK(model.block.mlp(x).to_vector<double>() ==
        ops::linear(hidden, parameters[2].parameter->tensor()).to_vector<double>());
  const Pass pass = run_pass(model, {.inputs = x});
  CHECK(pass.gradients.size() == 5);
}

TEST_CASE("Dropout: its path is its site", "[nn]") {
  Chained model;
  const Tensor x = normal({4, 50}, 1);
  CHECK(model.block.drop(x).is_same(x));
  const nn::ForwardScope scope({.training = true, .seed = 1, .samples = 4});
  const auto dropped = model.block.drop(x).to_vector<double>();
  CHECK(dropped == nn::dropout(x, 0.25, "blocks.0.drop").to_vector<double>());
  CHECK(dropped != x.to_vector<double>());
  const nn::Dropout stranger({.p = 0.5});
  CHECK(refusal([&] { stranger(x); }) ==
        "Dropout: expected a module of a model's unit, whose name decides the mask, got one outside");
}

TEST_CASE("layers: default initial values, and refused options", "[nn]") {
  const nn::Linear linear({.in = 12, .out = 5});
  CHECK(linear.parameters()[0].parameter->init().deviation == 1 / std::sqrt(36.0f));  // PyTorch: uniform, 1 / sqrt(12)
  CHECK(linear.parameters()[1].parameter->init().deviation == 0);
  const nn::Conv1d conv({.in = 4, .out = 5, .kernel = 3});
  CHECK(conv.parameters()[0].parameter->init().deviation == 1 / std::sqrt(36.0f));
  CHECK(nn::Embedding({.count = 3, .width = 2}).parameters()[0].parameter->init().deviation == 1);
  CHECK(refusal([] { nn::Linear({.out = 3}); }) == "Linear: in: expected at least 1, got 0");
  CHECK(refusal([] { nn::Linear({.in = 3, .out = -1}); }) == "Linear: out: expected at least 1, got -1");
  CHECK(refusal([] { nn::Conv1d({.in = 3, .out = 1}); }) == "Conv1d: kernel: expected at least 1, got 0");
  CHECK(refusal([] { nn::Embedding({.count = 3}); }) == "Embedding: width: expected at least 1, got 0");
  CHECK(refusal([] { nn::LayerNorm({}); }) == "LayerNorm: width: expected at least 1, got 0");
  CHECK(refusal([] { nn::RmsNorm({}); }) == "RmsNorm: width: expected at least 1, got 0");
  CHECK(refusal([] { nn::Dropout({.p = 1}); }) == "Dropout: p: expected a number in [0, 1), got 1.000000");
  CHECK(refusal([] { Late(); }) ==
        "expected parameters, buffers and children to be made in the constructor of their parent, got 0 after late "
        "became "
        "part of a "
        "unit");
}
