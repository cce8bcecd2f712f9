// Llama (Touvron et al. 2023; Llama 3) and similar families: x += proj(attention(rope(qkv(norm1(x))))), x +=
// down(swiglu(gate_up(norm2(x)))).
#include "nn/llama.h"

#include "nn/families.h"
#include "nn/sublayers.h"

namespace lt::nn {
namespace {

struct GatedFfn : Module {
  explicit GatedFfn(const TransformerSpec& spec)
      : gate_up(add<Linear>("gate_up", {.in = spec.width,
                                        .out = 2 * spec.ffn,
                                        .bias = false,
                                        .init = kInit,
                                        .parts = {spec.ffn, spec.ffn},
                                        .adapter = adapter_of(spec, "ffn.gate_up")})),
        down(add<Linear>("down", {.in = spec.ffn,
                                  .out = spec.width,
                                  .bias = false,
                                  .init = residual_init(spec),
                                  .adapter = adapter_of(spec, "ffn.down")})) {}

  // Returns swiglu(gate_up(norm(x))).
  Tensor gated(const RmsNorm& norm, const Tensor& x) const {
    if (gate_up.is_adapted()) return ops::swiglu(gate_up(norm(x)));
    return ops::rms_norm_swiglu(x, norm.weight(), norm.eps(), gate_up.weight());
  }

  Linear &gate_up, &down;
};

struct LlamaBlock final : Transformer::Block {
  LlamaBlock(const TransformerSpec& spec, const std::string& name)
      : norm1(add<RmsNorm>("norm1", {.width = spec.width, .eps = spec.norm_eps})),
        attention(add<QkvAttention>("attention", spec, false)),
        norm2(add<RmsNorm>("norm2", {.width = spec.width, .eps = spec.norm_eps})),
        ffn(add<GatedFfn>("ffn", spec)),
        rope_base(spec.rope_base),
        rope_scaling(parse_rope_scaling(spec.rope_scaling)),
        dropout_p(spec.dropout),
        site(name) {}

  Tensor forward(const Tensor& x, const Transformer::Positions& positions) const override {
    const Tensor a = attention.attend(attention.packed(norm1, x), positions, rope_base, rope_scaling);
    const Tensor y = add_residual(attention.proj, a, x, dropout_p, site + ".attention");
    return add_residual(ffn.down, ffn.gated(norm2, y), y, dropout_p, site + ".ffn");
  }

  RmsNorm& norm1;
  QkvAttention& attention;
  RmsNorm& norm2;
  GatedFfn& ffn;
  double rope_base;
  RopeScaling rope_scaling;
  double dropout_p;
  std::string site;
};

struct LlamaEmbed final : Transformer::Embed {
  explicit LlamaEmbed(const TransformerSpec& spec)
      : wte(add<Embedding>("wte", {.count = spec.vocab, .width = spec.width, .init = kInit})),
        dropout_p(spec.dropout) {}

  Tensor forward(const Tensor& tokens, const Transformer::Positions&) const override {
    return dropout(wte(tokens), dropout_p, "embedding");
  }
  const Tensor& table() const override { return wte.weight(); }

  Embedding& wte;
  double dropout_p;
};

struct Llama final : Transformer {
  explicit Llama(const TransformerSpec& description) : Transformer(description) {
    auto& embed = add_unit<LlamaEmbed>("embedding", spec());
    std::vector<Transformer::Block*> blocks;
    for (Size i = 0; i < spec().layers; ++i) {
      blocks.push_back(&add_block<LlamaBlock>(block_name(i), spec(), block_name(i)));
    }
    set_parts(embed, std::move(blocks), add_unit<LmHead<RmsNorm>>("head", spec()));
  }
};

constexpr HfEntry kLlamaOnlyConfig[] = {
    {"attention_bias", nullptr, "false"},
    {"attention_dropout", nullptr, "0.0"},
    {"mlp_bias", nullptr, "false"},
};

}  // namespace

std::unique_ptr<Transformer> make_llama(const TransformerSpec& spec) { return std::make_unique<Llama>(spec); }

const ModelFamily kLlama{
    .name = "llama",
    .gated_ffn = true,
    .rotary = true,
    .defaults = {.norm_eps = 1e-5f, .rope_base = 500000, .tie_embeddings = false, .qk_norm = false, .qkv_bias = false},
    .check = nullptr,
    .make = make_llama,
    .hf = {"LlamaForCausalLM", "llama", kLlamaConfig, kLlamaOnlyConfig, kLlamaTensors}};

}  // namespace lt::nn
