// Parameters: names, initial values as a pure function of (seed, name, index), and the initial loss.
#include <cmath>
#include <set>

#include "libtrain/error.h"
#include "nn/passes.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

std::map<std::string, std::vector<float>> values_of(const nn::Model& model) {
  std::map<std::string, std::vector<float>> values;
  for (const nn::NamedParameter& entry : model.all_parameters()) {
    values[entry.name] = entry.parameter->tensor().to_vector<float>();
  }
  return values;
}

}  // namespace

TEST_CASE("matrices that one parameter holds add up to its rows", "[nn]") {
  const auto llama = nn::make_transformer(nn::preset("llama-tiny"));
  for (const nn::NamedParameter& entry : llama->all_parameters()) {
    const std::vector<Size> rows = entry.parameter->matrix_rows();
    if (entry.name == "blocks.0.attention.qkv.weight") CHECK(rows == std::vector<Size>{128, 64, 64});
    if (entry.name == "blocks.0.ffn.gate_up.weight") CHECK(rows == std::vector<Size>{352, 352});
    if (entry.name == "blocks.0.ffn.down.weight") CHECK(rows == std::vector<Size>{128});
    if (entry.name == "blocks.0.norm1.weight") CHECK(rows.empty());
    CHECK(entry.parameter->is_block_matrix() == (entry.name.starts_with("blocks.") && !rows.empty()));
  }
  nn::Parameter parameter({6, 4}, nn::Init::constant(0));
  parameter.set_matrix_rows({2, 4});
  CHECK(parameter.matrix_rows() == std::vector<Size>{2, 4});
  for (const std::vector<Size>& rows : {std::vector<Size>{2, 3}, {7}, {0, 6}, {-1, 7}}) {
    CHECK_THROWS_AS(parameter.set_matrix_rows(rows), UsageError);
  }
}

TEST_CASE("every parameter has a name of its own, and belongs to one unit", "[nn]") {
  for (const nn::Preset& preset : nn::presets()) {
    const auto model = nn::make_transformer(preset.spec);
    std::set<std::string> names;
    std::set<const nn::Parameter*> parameters;
    for (const nn::NamedParameter& entry : model->all_parameters()) {
      names.insert(entry.name), parameters.insert(entry.parameter);
    }
    INFO(preset.name);
    CHECK(names.size() == model->all_parameters().size());
    CHECK(parameters.size() == names.size());
  }
  std::vector<std::string> names;
  for (const nn::NamedParameter& entry : nn::make_transformer(two_blocks("llama"))->all_parameters())
    names.push_back(entry.name);
  CHECK(std::vector<std::string>(names.begin(), names.begin() + 7) ==
        std::vector<std::string>{"embedding.wte.weight", "blocks.0.norm1.weight", "blocks.0.attention.qkv.weight",
                                 "blocks.0.attention.proj.weight", "blocks.0.norm2.weight",
                                 "blocks.0.ffn.gate_up.weight", "blocks.0.ffn.down.weight"});
  CHECK(std::vector<std::string>(names.end() - 2, names.end()) ==
        std::vector<std::string>{"head.norm.weight", "head.lm.weight"});
}

TEST_CASE("initial values do not depend on how a parameter is cut", "[nn]") {
  const std::string name = "blocks.1.ffn.up.weight";
  const auto values = [&](Size begin, Size count) {
    const Tensor part = Tensor::empty({count}, DType::f32);
    nn::initial_values(part, name, nn::Init::normal(0.02f), kSeed, begin);
    return part.to_vector<float>();
  };
  const std::vector<float> whole = values(0, 1000);
  for (const Size shards : {2, 3, 4, 7, 64}) {
    std::vector<float> pieces;
    for (Size r = 0; r < shards; ++r) {
      const Size begin = 1000 * r / shards, end = 1000 * (r + 1) / shards;
      for (const float value : values(begin, end - begin)) pieces.push_back(value);
    }
    INFO(shards << " shards");
    CHECK(pieces == whole);
  }
}

TEST_CASE("initial values are those of the seed and the name, whatever the model around them", "[nn]") {
  nn::TransformerSpec spec = two_blocks("gpt2");
  const auto two = values_of(*model_of(spec, DType::f32));
  CHECK(values_of(*model_of(spec, DType::f32)) == two);
  spec.layers = 3, spec.dropout = 0.1;
  const auto three = values_of(*model_of(spec, DType::f32));
  CHECK(three.at("blocks.1.attention.qkv.weight") == two.at("blocks.1.attention.qkv.weight"));
  CHECK(three.at("embedding.wte.weight") == two.at("embedding.wte.weight"));
  CHECK(three.at("blocks.2.attention.qkv.weight") != two.at("blocks.1.attention.qkv.weight"));

  spec = two_blocks("gpt2");
  const auto other = nn::make_transformer(spec);
  other->materialize(kCpu, DType::f32, kSeed + 1);
  CHECK(values_of(*other).at("embedding.wte.weight") != two.at("embedding.wte.weight"));

  auto rounded = two;
  for (auto& [name, values] : rounded) {
    for (float& value : values) value = bf16(value);
  }
  CHECK(values_of(*model_of(spec, DType::bf16)) == rounded);
}

TEST_CASE("initial deviations: 0.02, residual projections 0.02 / sqrt(2 layers), biases 0, norms 1", "[nn]") {
  for (const char* preset : {"gpt-tiny", "llama-tiny"}) {
    const nn::TransformerSpec spec = nn::preset(preset);
    for (const auto& [name, values] : values_of(*model_of(spec, DType::f32))) {
      INFO(preset << " " << name);
      const bool is_norm = name.find("norm") != std::string::npos, is_bias = name.ends_with("bias");
      if (is_norm || is_bias) {
        CHECK(values == std::vector<float>(values.size(), is_bias ? 0.0f : 1.0f));
        continue;
      }
      const bool residual = name.ends_with("proj.weight") || name.ends_with("down.weight");
      const double expected = residual ? 0.02 / std::sqrt(2.0 * static_cast<double>(spec.layers)) : 0.02;
      double sum = 0, squares = 0;
      for (const float value : values) sum += value, squares += static_cast<double>(value) * value;
      const double n = static_cast<double>(values.size());
      // Four standard errors of the mean and of the deviation.
      CHECK(std::abs(sum / n) < 4 * expected / std::sqrt(n));
      CHECK(std::abs(std::sqrt(squares / n) / expected - 1) < 4 / std::sqrt(2 * n));
    }
  }
}

TEST_CASE("the loss at the start is about that of a guess", "[nn]") {
  for (const char* preset : {"gpt-tiny", "llama-tiny"}) {
    const nn::TransformerSpec spec = nn::preset(preset);
    const auto model = model_of(spec, DType::f32);
    // Logits have a deviation of 0.02 sqrt(width) = 0.23, which adds half its square, 0.026, to ln(vocab).
    const double loss = model->loss(tokens_of(0, 4, 64, spec.vocab)).item();
    CHECK(loss == Approx(std::log(256.0) + 0.026).margin(0.03));
  }
}

TEST_CASE("parameters of two and more dimensions decay", "[nn]") {
  const auto model = nn::make_transformer(two_blocks("gpt2"));
  for (const nn::NamedParameter& entry : model->all_parameters()) {
    const bool is_matrix = entry.name.ends_with("weight") && entry.name.find("norm") == std::string::npos;
    INFO(entry.name);
    CHECK(entry.parameter->decays() == is_matrix);
  }
}

TEST_CASE("a model without values says so", "[nn]") {
  const auto model = nn::make_transformer(two_blocks("gpt2"));
  CHECK_THROWS_AS(model->loss(tokens_of(0, 1, 4, 29)), UsageError);
}
