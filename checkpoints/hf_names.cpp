// The correspondence between this library's parameters and those of Hugging Face models.
#include "hf_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "libtrain/error.h"
#include "model_number.h"

namespace lt::checkpoint {
namespace {

// Sizes of a tensor, by their letter: C width, V vocab, P max_seq, F ffn, q (= k = v of GPT-2) H x D rows, g rows of
// the key-value heads. Packed parameters have more rows than one of their Hugging Face tensors.
enum class Rows { all, q, k, v, gate, up };

struct Row {
  const char* ours;  // {} is the layer
  const char* theirs;
  const char* shape;  // of ours: outermost first, sums as "q+g+g"
  Rows rows = Rows::all;
  bool transposed = false;  // GPT-2's Conv1D keeps [in, out]
  bool untied_only = false;
};

constexpr Row kGpt2[] = {
    {"embedding.wte.weight", "transformer.wte.weight", "V,C"},
    {"embedding.wpe.weight", "transformer.wpe.weight", "P,C"},
    {"blocks.{}.norm1.weight", "transformer.h.{}.ln_1.weight", "C"},
    {"blocks.{}.norm1.bias", "transformer.h.{}.ln_1.bias", "C"},
    {"blocks.{}.attention.qkv.weight", "transformer.h.{}.attn.c_attn.weight", "C+C+C,C", Rows::all, true},
    {"blocks.{}.attention.qkv.bias", "transformer.h.{}.attn.c_attn.bias", "C+C+C"},
    {"blocks.{}.attention.proj.weight", "transformer.h.{}.attn.c_proj.weight", "C,C", Rows::all, true},
    {"blocks.{}.attention.proj.bias", "transformer.h.{}.attn.c_proj.bias", "C"},
    {"blocks.{}.norm2.weight", "transformer.h.{}.ln_2.weight", "C"},
    {"blocks.{}.norm2.bias", "transformer.h.{}.ln_2.bias", "C"},
    {"blocks.{}.ffn.up.weight", "transformer.h.{}.mlp.c_fc.weight", "F,C", Rows::all, true},
    {"blocks.{}.ffn.up.bias", "transformer.h.{}.mlp.c_fc.bias", "F"},
    {"blocks.{}.ffn.down.weight", "transformer.h.{}.mlp.c_proj.weight", "C,F", Rows::all, true},
    {"blocks.{}.ffn.down.bias", "transformer.h.{}.mlp.c_proj.bias", "C"},
    {"head.norm.weight", "transformer.ln_f.weight", "C"},
    {"head.norm.bias", "transformer.ln_f.bias", "C"},
    {"head.lm.weight", "lm_head.weight", "V,C", Rows::all, false, true},
};

constexpr Row kLlama[] = {
    {"embedding.wte.weight", "model.embed_tokens.weight", "V,C"},
    {"blocks.{}.norm1.weight", "model.layers.{}.input_layernorm.weight", "C"},
    {"blocks.{}.attention.qkv.weight", "model.layers.{}.self_attn.q_proj.weight", "q+g+g,C", Rows::q},
    {"blocks.{}.attention.qkv.weight", "model.layers.{}.self_attn.k_proj.weight", "q+g+g,C", Rows::k},
    {"blocks.{}.attention.qkv.weight", "model.layers.{}.self_attn.v_proj.weight", "q+g+g,C", Rows::v},
    {"blocks.{}.attention.proj.weight", "model.layers.{}.self_attn.o_proj.weight", "C,q"},
    {"blocks.{}.norm2.weight", "model.layers.{}.post_attention_layernorm.weight", "C"},
    {"blocks.{}.ffn.gate_up.weight", "model.layers.{}.mlp.gate_proj.weight", "F+F,C", Rows::gate},
    {"blocks.{}.ffn.gate_up.weight", "model.layers.{}.mlp.up_proj.weight", "F+F,C", Rows::up},
    {"blocks.{}.ffn.down.weight", "model.layers.{}.mlp.down_proj.weight", "C,F"},
    {"head.norm.weight", "model.norm.weight", "C"},
    {"head.lm.weight", "lm_head.weight", "V,C", Rows::all, false, true},
};

Size size_of(char letter, const ModelInfo& model) {
  switch (letter) {
    case 'C': return model.width;
    case 'V': return model.vocab;
    case 'P': return model.max_seq;
    case 'F': return model.ffn;
    case 'q': return model.heads * model.head_dim();
    case 'g': return model.kv_heads * model.head_dim();
  }
  throw InternalError("checkpoint", fmt::format("name table: unknown size {}", letter));
}

Shape shape_of(const char* text, const ModelInfo& model) {
  std::vector<Size> sizes(1, 0);
  for (; *text != '\0'; ++text) {
    if (*text == ',') sizes.push_back(0);
    if (*text != ',' && *text != '+') sizes.back() += size_of(*text, model);
  }
  return Shape(std::span<const Size>(sizes));
}

// First row and number of rows.
std::pair<Size, Size> rows_of(Rows rows, const Shape& whole, const ModelInfo& model) {
  const Size q = size_of('q', model), g = size_of('g', model), f = model.ffn;
  switch (rows) {
    case Rows::all: return {0, whole[0]};
    case Rows::q: return {0, q};
    case Rows::k: return {q, g};
    case Rows::v: return {q + g, g};
    case Rows::gate: return {0, f};
    case Rows::up: return {f, f};
  }
  return {0, 0};
}

HfTensor tensor_of(const Row& row, Size layer, const ModelInfo& model) {
  const Shape shape = shape_of(row.shape, model);
  const auto [begin, count] = rows_of(row.rows, shape, model);
  return {fmt::format(fmt::runtime(row.ours), layer),  shape, begin, count, row.transposed,
          fmt::format(fmt::runtime(row.theirs), layer)};
}

}  // namespace

Shape HfTensor::their_shape() const {
  if (our_shape.dims() == 1) return {rows};
  return transposed ? Shape{columns(), rows} : Shape{rows, columns()};
}

std::vector<HfTensor> hf_tensors(const ModelInfo& model) {
  const std::span<const Row> table = model.family == "gpt2" ? std::span<const Row>(kGpt2) : kLlama;
  const auto is_block = [](const Row& row) { return std::string_view(row.ours).starts_with("blocks."); };
  const auto blocks = std::find_if(table.begin(), table.end(), is_block);
  const auto after = std::find_if_not(blocks, table.end(), is_block);
  std::vector<HfTensor> tensors;
  for (auto row = table.begin(); row != blocks; ++row) tensors.push_back(tensor_of(*row, 0, model));
  for (Size layer = 0; layer < model.layers; ++layer) {
    for (auto row = blocks; row != after; ++row) tensors.push_back(tensor_of(*row, layer, model));
  }
  for (auto row = after; row != table.end(); ++row) {
    if (!row->untied_only || !model.tie_embeddings) tensors.push_back(tensor_of(*row, 0, model));
  }
  return tensors;
}

ModelInfo parse_model(const std::string& text) {
  if (text.empty() || text == "{}") {
    throw DataError("checkpoint", "manifest.json: model: expected a description of a GPT-2 or Llama, found none",
                    "a model of one's own is exported by its own program");
  }
  try {
    const auto json = nlohmann::json::parse(text);
    const ModelInfo model{json.at("family").get<std::string>(),
                          model_size(json, "layers", kMaxModelLayers),
                          model_size(json, "heads"),
                          model_size(json, "kv_heads"),
                          model_size(json, "width"),
                          model_size(json, "ffn"),
                          model_size(json, "vocab"),
                          model_size(json, "max_seq"),
                          model_real(json, "norm_eps", 0, 1),
                          model_real(json, "rope_base", 0, 1e12),
                          model_real(json, "dropout", 0, 1),
                          json.at("tie_embeddings").get<bool>()};
    if (model.family != "gpt2" && model.family != "llama") {
      throw DataError("checkpoint", "manifest.json: model.family: expected gpt2 or llama, found " + model.family);
    }
    if (model.width % model.heads != 0) {
      throw DataError("checkpoint", fmt::format("manifest.json: model.heads: {} does not divide model.width {}",
                                                model.heads, model.width));
    }
    return model;
  } catch (const nlohmann::json::exception& e) {
    throw DataError("checkpoint", std::string("manifest.json: model: ") + e.what());
  }
}

}  // namespace lt::checkpoint
