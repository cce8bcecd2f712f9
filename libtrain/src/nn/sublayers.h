// The sublayers shared by several families. Initial weights: normal 0.02, residual projections 0.02 / sqrt(2 layers)
// (Radford et al. 2019), biases 0, norms 1.
#pragma once

#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "libtrain/nn/layers.h"
#include "libtrain/nn/models.h"
#include "nn/lora.h"

namespace lt::nn {

inline constexpr Init kInit{0, 0.02f};

inline Init residual_init(const TransformerSpec& spec) {
  return Init::normal(kInit.deviation / std::sqrt(2.0f * static_cast<float>(spec.layers)));
}

// Returns how many rows the matrices of queries, keys and values have.
inline std::vector<Size> rows_of(const ops::Heads& heads) {
  const Size keys = heads.kv_heads * heads.head_dim;
  return {heads.heads * heads.head_dim, keys, keys};
}

// Returns norm(x) weight^T + bias.
template <class Norm>
Tensor linear_of_norm(const Norm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias = {}) {
  if constexpr (std::is_same_v<Norm, RmsNorm>) {
    return ops::rms_norm_linear(x, norm.weight(), norm.eps(), weight, bias);
  } else {
    return ops::linear(norm(x), weight, bias);
  }
}

struct QkvAttention : Module {
  QkvAttention(const TransformerSpec& spec, bool proj_bias)
      : heads{spec.heads, spec.kv_heads, spec.head_dim},
        window(spec.window),
        qkv(add<Linear>("qkv", {.in = spec.width,
                                .out = heads.row(),
                                .bias = spec.has_qkv_bias(),
                                .init = kInit,
                                .parts = rows_of(heads),
                                .adapter = adapter_of(spec, "attention.qkv")})),
        proj(add<Linear>("proj", {.in = spec.heads * spec.head_dim,
                                  .out = spec.width,
                                  .bias = proj_bias,
                                  .init = residual_init(spec),
                                  .adapter = adapter_of(spec, "attention.proj")})),
        q_norm(spec.has_qk_norm() ? &add<RmsNorm>("q_norm", {.width = spec.head_dim, .eps = spec.norm_eps}) : nullptr),
        k_norm(spec.has_qk_norm() ? &add<RmsNorm>("k_norm", {.width = spec.head_dim, .eps = spec.norm_eps}) : nullptr) {
  }

  // Returns the packed rows [B, T, heads.row()] of norm(x), x [B, T, width].
  template <class Norm>
  Tensor packed(const Norm& norm, const Tensor& x) const {
    Tensor rows = qkv.is_adapted() ? qkv(norm(x)) : linear_of_norm(norm, x, qkv.weight(), qkv.bias());
    return q_norm == nullptr ? rows : ops::qk_norm(rows, heads, q_norm->weight(), k_norm->weight(), q_norm->eps());
  }
  Tensor attend(const Tensor& rows, const Transformer::Positions& positions) const {
    return positions.cache != nullptr ? ops::attention_cached(rows, heads, *positions.cache, window)
                                      : ops::attention(rows, heads, window, positions.document_starts);
  }
  // Like attend() above, with rotary positions.
  Tensor attend(Tensor rows, const Transformer::Positions& positions, double rope_base,
                const RopeScaling& scaling) const {
    if (positions.cache != nullptr) {
      return ops::attention_cached(std::move(rows), heads, *positions.cache, window, rope_base, scaling);
    }
    const Tensor rotated = ops::rope(std::move(rows), heads, rope_base, 0, scaling, positions.document_starts);
    return ops::attention(rotated, heads, window, positions.document_starts);
  }

  ops::Heads heads;
  Size window;
  Linear &qkv, &proj;
  RmsNorm *q_norm, *k_norm;  // null if the model has no QK norm
};

// Returns x + dropout(linear(h)). Without dropout the matmul adds x.
inline Tensor add_residual(const Linear& linear, const Tensor& h, const Tensor& x, double dropout_p,
                           const std::string& site) {
  if (dropout_p == 0) return linear(h, x);
  return ops::add(x, dropout(linear(h), dropout_p, site));
}

// The final norm and, if embeddings are untied, the head's own table.
template <class Norm>
struct LmHead final : Transformer::Head {
  explicit LmHead(const TransformerSpec& spec)
      : final_norm(add<Norm>("norm", {.width = spec.width, .eps = spec.norm_eps})),
        lm(spec.tied() ? nullptr : &add<Embedding>("lm", {.count = spec.vocab, .width = spec.width, .init = kInit})) {}

  Tensor norm(const Tensor& x) const override { return final_norm(x); }
  Tensor logits(const Tensor& x, const Tensor& table) const override { return linear_of_norm(final_norm, x, table); }
  Tensor weight() const override { return lm != nullptr ? lm->weight() : Tensor(); }

  Norm& final_norm;
  Embedding* lm;
};

inline std::string block_name(Size i) { return "blocks." + std::to_string(i); }

}  // namespace lt::nn
