// GPT-2 (Radford et al. 2019): x += proj(attention(qkv(norm1(x)))), x += down(gelu(up(norm2(x)))).
#include "libtrain/error.h"
#include "nn/families.h"
#include "nn/sublayers.h"

namespace lt::nn {
namespace {

struct Ffn : Module {
  explicit Ffn(const TransformerSpec& spec)
      : up(add<Linear>("up",
                       {.in = spec.width, .out = spec.ffn, .init = kInit, .adapter = adapter_of(spec, "ffn.up")})),
        down(add<Linear>("down", {.in = spec.ffn,
                                  .out = spec.width,
                                  .init = residual_init(spec),
                                  .adapter = adapter_of(spec, "ffn.down")})) {}

  Tensor operator()(const Tensor& x, const Tensor& residual = {}) const {
    if (up.is_adapted() || down.is_adapted()) return down(ops::gelu(up(x)), residual);
    return ops::gelu_ffn(x, up.weight(), up.bias(), down.weight(), down.bias(), residual);
  }

  Linear &up, &down;
};

struct GptBlock final : Transformer::Block {
  GptBlock(const TransformerSpec& spec, const std::string& name)
      : norm1(add<LayerNorm>("norm1", {.width = spec.width, .eps = spec.norm_eps})),
        attention(add<QkvAttention>("attention", spec, true)),
        norm2(add<LayerNorm>("norm2", {.width = spec.width, .eps = spec.norm_eps})),
        ffn(add<Ffn>("ffn", spec)),
        dropout_p(spec.dropout),
        site(name) {}

  Tensor forward(const Tensor& x, const Transformer::Positions& positions) const override {
    const Tensor a = attention.attend(attention.packed(norm1, x), positions);
    const Tensor y = add_residual(attention.proj, a, x, dropout_p, site + ".attention");
    const Tensor n = norm2(y);
    return dropout_p == 0 ? ffn(n, y) : ops::add(y, dropout(ffn(n), dropout_p, site + ".ffn"));
  }

  LayerNorm& norm1;
  QkvAttention& attention;
  LayerNorm& norm2;
  Ffn& ffn;
  double dropout_p;
  std::string site;
};

struct GptEmbed final : Transformer::Embed {
  explicit GptEmbed(const TransformerSpec& spec)
      : wte(add<Embedding>("wte", {.count = spec.vocab, .width = spec.width, .init = kInit})),
        wpe(add<Embedding>("wpe", {.count = spec.max_seq, .width = spec.width, .init = kInit})),
        dropout_p(spec.dropout) {}

  Tensor forward(const Tensor& tokens, const Transformer::Positions& positions) const override {
    if (positions.per_sequence.defined()) {
      return ops::add(wte(tokens), ops::embedding(wpe.weight(), positions.per_sequence.view(tokens.shape())));
    }
    const Tensor x =
        ops::embedding_with_positions(wte.weight(), wpe.weight(), tokens, positions.first, positions.document_starts);
    return dropout(x, dropout_p, "embedding");
  }
  const Tensor& table() const override { return wte.weight(); }

  Embedding &wte, &wpe;
  double dropout_p;
};

constexpr HfEntry kGpt2Config[] = {
    {"activation_function", nullptr, "\"gelu_new\""},
    {"n_layer", "layers", nullptr},
    {"n_head", "heads", nullptr},
    {"n_embd", "width", nullptr},
    {"n_inner", "ffn", nullptr},
    {"n_positions", "max_seq", nullptr},
    {"layer_norm_epsilon", "norm_eps", nullptr},
    {"resid_pdrop", "dropout", nullptr},
    {"embd_pdrop", "dropout", nullptr},
    {"attn_pdrop", nullptr, "0.0"},
};

using Rows = HfTensorRow::Rows;
using Where = HfTensorRow::Where;

constexpr HfTensorRow kGpt2Tensors[] = {
    {"embedding.wte.weight", "transformer.wte.weight", "V,C"},
    {"embedding.wpe.weight", "transformer.wpe.weight", "P,C"},
    {"blocks.{}.norm1.weight", "transformer.h.{}.ln_1.weight", "C"},
    {"blocks.{}.norm1.bias", "transformer.h.{}.ln_1.bias", "C"},
    {"blocks.{}.attention.qkv.weight", "transformer.h.{}.attn.c_attn.weight", "q+g+g,C", Rows::all, true},
    {"blocks.{}.attention.qkv.bias", "transformer.h.{}.attn.c_attn.bias", "q+g+g"},
    {"blocks.{}.attention.proj.weight", "transformer.h.{}.attn.c_proj.weight", "C,q", Rows::all, true},
    {"blocks.{}.attention.proj.bias", "transformer.h.{}.attn.c_proj.bias", "C"},
    {"blocks.{}.norm2.weight", "transformer.h.{}.ln_2.weight", "C"},
    {"blocks.{}.norm2.bias", "transformer.h.{}.ln_2.bias", "C"},
    {"blocks.{}.ffn.up.weight", "transformer.h.{}.mlp.c_fc.weight", "F,C", Rows::all, true},
    {"blocks.{}.ffn.up.bias", "transformer.h.{}.mlp.c_fc.bias", "F"},
    {"blocks.{}.ffn.down.weight", "transformer.h.{}.mlp.c_proj.weight", "C,F", Rows::all, true},
    {"blocks.{}.ffn.down.bias", "transformer.h.{}.mlp.c_proj.bias", "C"},
    {"head.norm.weight", "transformer.ln_f.weight", "C"},
    {"head.norm.bias", "transformer.ln_f.bias", "C"},
    {"head.lm.weight", "lm_head.weight", "V,C", Rows::all, false, Where::untied},
};

void check_gpt2(const TransformerSpec& spec) {
  if (spec.kv_heads == spec.heads) return;
  throw UsageError("model", "kv_heads", "as many as heads in gpt2, " + std::to_string(spec.heads),
                   std::to_string(spec.kv_heads), "other families support grouped heads");
}

}  // namespace

// rope_base is unused, but manifests record it.
const ModelFamily kGpt2{
    .name = "gpt2",
    .gated_ffn = false,
    .rotary = false,
    .defaults = {.norm_eps = 1e-5f, .rope_base = 500000, .tie_embeddings = true, .qk_norm = false, .qkv_bias = true},
    .check = check_gpt2,
    .make = [](const TransformerSpec& spec) -> std::unique_ptr<Transformer> { return std::make_unique<Gpt2>(spec); },
    .hf = {"GPT2LMHeadModel", "gpt2", kGpt2Config, {}, kGpt2Tensors}};

Gpt2::Gpt2(TransformerSpec description) : Transformer((description.family = "gpt2", std::move(description))) {
  auto& embed = add_unit<GptEmbed>("embedding", spec());
  std::vector<Transformer::Block*> blocks;
  for (Size i = 0; i < spec().layers; ++i) blocks.push_back(&add_block<GptBlock>(block_name(i), spec(), block_name(i)));
  set_parts(embed, std::move(blocks), add_unit<LmHead<LayerNorm>>("head", spec()));
}

}  // namespace lt::nn
