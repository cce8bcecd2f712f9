// GPT-2 and Llama, and the table of presets.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/module.h"
#include "libtrain/ops.h"

namespace lt::nn {

// Everything that determines a transformer of either family.
struct TransformerSpec {
  std::string family = "gpt2";  // gpt2 or llama
  Size layers = 0, heads = 0, kv_heads = 0, width = 0, ffn = 0, vocab = 0, max_seq = 0;
  std::optional<bool> tie_embeddings =
      std::nullopt;  // the head uses the embedding's table; unset: gpt2 does, llama does not
  double dropout = 0;
  float norm_eps = 1e-5f;
  double rope_base = 500000;  // llama

  Size head_dim() const { return width / heads; }
  bool tied() const { return tie_embeddings.value_or(family == "gpt2"); }
};

// Fills what is 0: kv_heads = heads, ffn = 4 width (gpt2) or 8/3 width rounded up to a multiple of 32 (llama).
TransformerSpec with_defaults(TransformerSpec spec);

struct Preset {
  std::string name;
  TransformerSpec spec;
};
const std::vector<Preset>& presets();
// Throws UsageError naming the presets.
const TransformerSpec& preset(const std::string& name);
// The preset of this shape, whatever its dropout, epsilon and base of rotary positions; null where there is none.
const Preset* preset_of(const TransformerSpec& spec);
// That preset's name; of any other shape its family, layers and width: "gpt2-2x32".
std::string model_name(const TransformerSpec& spec);

// Throws UsageError (part "config", field "model.*") for a combination that makes no model.
void validate(const TransformerSpec& spec);

// The keys and values of all layers for generation.
struct DecodeState {
  std::vector<ops::KvCache> layers;
  Size length = 0;
};

// A causal language model on token ids: batch inputs and targets are i32 [B, T] in [0, vocab), which is not checked.
// loss() and logits() throw UsageError for more than max_seq tokens.
class Transformer : public Model {
 public:
  explicit Transformer(const TransformerSpec& spec);

  const TransformerSpec& spec() const { return spec_; }
  Tensor loss(const Batch& batch) override;
  // Logits [B, T, V] of tokens [B, T]. With `state`, the tokens follow those it holds, only the last position's logits
  // [B, 1, V] are computed, and the state advances. No gradient is recorded.
  Tensor logits(const Tensor& tokens, DecodeState* state = nullptr);
  DecodeState decode_state(Size batch, Size capacity) const;

  // FLOPs of training on one token of a sequence of `seq`:
  // 3 * (2 * matmul weights of all blocks + 2 * layers * seq * width + 2 * width * vocab).
  double flops_per_token(Size seq) const;

  // The parts in which the families differ.
  struct Block : Module {
    virtual Tensor forward(const Tensor& x, ops::KvCache* cache) const = 0;
  };
  struct Embed : Module {
    virtual Tensor forward(const Tensor& tokens, Size first) const = 0;
    virtual const Tensor& table() const = 0;
  };
  struct Head : Module {
    virtual Tensor norm(const Tensor& x) const = 0;
    // Undefined where the embedding's table is used.
    virtual Tensor weight() const = 0;
  };

 protected:
  void set_parts(Embed& embed, std::vector<Block*> blocks, Head& head);

 private:
  Tensor hidden(const Tensor& tokens, DecodeState* state);

  TransformerSpec spec_;
  Embed* embed_ = nullptr;
  std::vector<Block*> blocks_;
  Head* head_ = nullptr;
};

// Radford et al. 2019: LayerNorm before each part, learned positions, biases, tanh GELU, tied head.
class Gpt2 : public Transformer {
 public:
  explicit Gpt2(TransformerSpec spec);
};

// Touvron et al. 2023 and Llama 3: RMSNorm, rotary positions, grouped heads, SwiGLU, no biases.
class Llama : public Transformer {
 public:
  explicit Llama(TransformerSpec spec);
};

// The model of `spec.family`. Throws UsageError.
std::unique_ptr<Transformer> make_transformer(const TransformerSpec& spec);

}  // namespace lt::nn
