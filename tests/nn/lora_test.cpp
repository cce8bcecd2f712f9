// Adapters: which projections have one, their initial values, and that they initially have no effect.
#include "nn/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "libtrain/error.h"
#include "nn/passes.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

nn::TransformerSpec adapted(nn::TransformerSpec spec, Size rank, std::vector<std::string> targets = {}) {
  spec.lora = {rank, 0, std::move(targets)};
  return spec;
}

std::map<std::string, Shape> adapters_of(const nn::TransformerSpec& spec) {
  std::map<std::string, Shape> shapes;
  const auto model = nn::make_transformer(spec);
  for (const nn::NamedParameter& entry : model->all_parameters()) {
    if (nn::is_adapter(entry.name)) shapes.emplace(entry.name, entry.parameter->shape());
  }
  return shapes;
}

}  // namespace

TEST_CASE("adapters: a layer without ranges is adapted as a whole", "[nn]") {
  const nn::Linear linear({.in = 3, .out = 4, .init = nn::Init::normal(1), .adapter = {.rank = 2}});
  CHECK(linear.is_adapted());
  std::map<std::string, Shape> shapes;
  for (const nn::NamedParameter& entry : linear.parameters()) shapes.emplace(entry.name, entry.parameter->shape());
  CHECK(shapes.at("lora_A") == Shape{2, 3});
  CHECK(shapes.at("lora_B") == Shape{4, 2});
}

TEST_CASE("adapters: every projection of every family has one, with a gradient for B", "[nn]") {
  for (const std::string& family : family_names()) {
    const nn::TransformerSpec spec = nn::with_defaults(adapted(two_blocks(family), 3));
    const auto with = adapters_of(spec);
    Size ranks = 0, rows = 0, projections = 0, outputs = 0;
    for (const auto& [name, shape] : with) {
      if (name.starts_with("blocks.0.")) (name.ends_with(nn::kLoraA) ? ranks : rows) += shape[0];
    }
    for (const nn::HfTensorRow& row : nn::find_family(family).hf.tensors) {
      if (nn::is_adapted(spec, row)) ++projections, outputs += nn::rows_of(row, spec).size;
    }
    INFO(family);
    CHECK(projections == (family == "gpt2" ? 4 : 7));
    CHECK(ranks == 3 * projections);
    CHECK(rows == outputs);
    const auto model = model_of(spec, DType::f32);
    const Batch batch = tokens_of(0, 2, 8, spec.vocab);
    const Pass pass = run_pass(*model, batch, {true, 4, 0, {}});
    // B is 0, so the loss is that of the base (whose feed-forward network GPT-2 fuses), and A has no gradient.
    const double base = run_pass(*model_of(two_blocks(family), DType::f32), batch, {true, 4, 0, {}}).loss;
    CHECK(std::abs(pass.loss / base - 1) < 1e-6);
    for (const auto& [name, shape] : with) {
      const auto& gradient = pass.gradients.at(name);
      CHECK(std::ranges::any_of(gradient, [](double g) { return g != 0; }) == name.ends_with(nn::kLoraB));
    }
  }
}

TEST_CASE("adapters: a target is the end of a projection's name", "[nn]") {
  const auto names = [](const std::string& family, std::vector<std::string> targets) {
    std::string all;
    for (const auto& [name, shape] : adapters_of(adapted(two_blocks(family), 2, std::move(targets)))) {
      if (name.starts_with("blocks.0.")) all += name.substr(9) + to_string(shape) + " ";
    }
    return all;
  };
  // Heads of 4 channels: q has 16 rows, k and v 8 each.
  CHECK(names("llama", {"v_proj", "q_proj"}) == "attention.qkv.lora_A[4, 16] attention.qkv.lora_B[24, 2] ");
  CHECK(names("llama", {"mlp.up_proj"}) == "ffn.gate_up.lora_A[2, 16] ffn.gate_up.lora_B[24, 2] ");
  CHECK(names("gpt2", {"c_attn"}) == "attention.qkv.lora_A[2, 16] attention.qkv.lora_B[48, 2] ");
  CHECK(names("gpt2", {"attn.c_proj"}) == "attention.proj.lora_A[2, 16] attention.proj.lora_B[16, 2] ");
  CHECK(names("gpt2", {"c_proj"}).ends_with("ffn.down.lora_A[2, 24] ffn.down.lora_B[16, 2] "));
  CHECK_THROWS_AS(names("llama", {"proj"}), UsageError);
  CHECK_THROWS_AS(names("llama", {""}), UsageError);
  nn::TransformerSpec spec = adapted(two_blocks("gpt2"), 4);
  CHECK(nn::with_defaults(spec).lora == nn::Lora{4, 4, {"c_attn", "c_proj", "c_fc"}});
  spec.lora = {0, 2, {}};
  CHECK_THROWS_AS(nn::make_transformer(spec), UsageError);
}

TEST_CASE("adapters: A has PEFT's deviation, B is 0; a pair of matrices for each projection", "[nn]") {
  const auto model = model_of(adapted(nn::preset("llama-tiny"), 16), DType::f32);
  for (const nn::NamedParameter& entry : model->all_parameters()) {
    if (!nn::is_adapter(entry.name)) continue;
    INFO(entry.name);
    const auto values = entry.parameter->tensor().to_vector<float>();
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * value;
    const double n = static_cast<double>(values.size()), inputs = static_cast<double>(entry.parameter->shape()[1]);
    // Four standard errors.
    if (entry.name.ends_with(nn::kLoraA))
      CHECK(std::abs(std::sqrt(squares / n * 3 * inputs) - 1) < 4 / std::sqrt(2 * n));
    if (entry.name.ends_with(nn::kLoraB)) CHECK(squares == 0);
    const std::vector<Size> rows = entry.parameter->matrix_rows();
    if (entry.name == "blocks.0.attention.qkv.lora_A") CHECK(rows == std::vector<Size>{16, 16, 16});
    if (entry.name == "blocks.0.attention.qkv.lora_B") CHECK(rows == std::vector<Size>{128, 64, 64});
  }
}

TEST_CASE("adapters: frozen weights have two matmuls a token, adapters three", "[nn]") {
  const nn::TransformerSpec spec = nn::preset("gpt-tiny");
  // In each block q, k, v are one projection: A of 4 x 128 and B of 384 x 4.
  const double base = 4 * 12 * 128 * 128, adapters = 4 * (4 * 128 + 384 * 4);
  CHECK(nn::make_transformer(adapted(spec, 4, {"c_attn"}))->flops_per_token(256) ==
        2.0 * (2 * base + 2 * 128 * 256) + 3.0 * (2 * adapters + 2 * 4 * 256 * 128));
}
