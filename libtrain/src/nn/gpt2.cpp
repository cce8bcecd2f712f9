// GPT-2 (Radford et al. 2019): x += proj(attention(qkv(norm1(x)))), x += down(gelu(up(norm2(x)))).
#include "nn/parts.h"

namespace lt::nn {
namespace {

struct Ffn : Module {
  explicit Ffn(const TransformerSpec& spec)
      : up(add<Linear>("up", spec.width, spec.ffn, true, kInit)),
        down(add<Linear>("down", spec.ffn, spec.width, true, residual_init(spec))) {}

  Tensor operator()(const Tensor& x, const Tensor& residual = {}) const {
    return ops::gelu_ffn(x, up.weight(), up.bias(), down.weight(), down.bias(), residual);
  }

  Linear &up, &down;
};

struct GptBlock final : Transformer::Block {
  GptBlock(const TransformerSpec& spec, const std::string& name)
      : norm1(add<LayerNorm>("norm1", spec.width, spec.norm_eps)),
        attention(add<QkvAttention>("attention", spec, true)),
        norm2(add<LayerNorm>("norm2", spec.width, spec.norm_eps)),
        ffn(add<Ffn>("ffn", spec)),
        dropout_p(spec.dropout),
        site(name) {}

  Tensor forward(const Tensor& x, ops::KvCache* cache) const override {
    const Tensor a = attention.attend(attention.qkv(norm1(x)), cache);
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
      : wte(add<Embedding>("wte", spec.vocab, spec.width, kInit)),
        wpe(add<Embedding>("wpe", spec.max_seq, spec.width, kInit)),
        dropout_p(spec.dropout) {}

  Tensor forward(const Tensor& tokens, Size first) const override {
    return dropout(ops::embedding_with_positions(wte.weight(), wpe.weight(), tokens, first), dropout_p, "embedding");
  }
  const Tensor& table() const override { return wte.weight(); }

  Embedding &wte, &wpe;
  double dropout_p;
};

}  // namespace

Gpt2::Gpt2(TransformerSpec description) : Transformer((description.family = "gpt2", std::move(description))) {
  auto& embed = add_unit<GptEmbed>("embedding", spec());
  std::vector<Transformer::Block*> blocks;
  for (Size i = 0; i < spec().layers; ++i) blocks.push_back(&add_block<GptBlock>(block_name(i), spec(), block_name(i)));
  set_parts(embed, std::move(blocks), add_unit<LmHead<LayerNorm>>("head", spec()));
}

}  // namespace lt::nn
