// Transformers: the code that all families share, and their factory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/nn/module.h"
#include "libtrain/nn/transformer_spec.h"
#include "libtrain/ops/ops.h"

namespace lt {
namespace LT_API nn {

// The keys and values of all layers for generation.
struct DecodeState {
  std::vector<ops::KvCache> layers;
  Size length = 0;  // tokens held, or the most of them
  Tensor lengths;   // i32 [B]: as KvCache::lengths

  // The state of sequence b alone, which shares its memory; without `lengths`.
  DecodeState row(Size b) const;
};

// A causal language model on token ids. Batch inputs and targets are i32 [B, T] in [0, vocab).
// With Batch::document_starts, attention and positions stay inside documents. loss() and logits() throw UsageError for
// more than max_seq tokens, and for none.
class Transformer : public Model {
 public:
  explicit Transformer(const TransformerSpec& spec);

  const TransformerSpec& spec() const { return spec_; }
  Tensor loss(const Batch& batch) override;
  ModelFacts facts(Size seq) const override;
  // Logits [B, T, V] of tokens [B, T]. Given `state`, the tokens follow those in it, only the last position's logits
  // [B, 1, V] are computed, and its length advances; `lengths` is the caller's. Records no gradient.
  Tensor logits(const Tensor& tokens, DecodeState* state = nullptr);
  DecodeState decode_state(Size batch, Size capacity) const;

  // FLOPs of training on one token of a sequence of `seq`: 3 * (2 * matmul weights of all blocks + 2 * layers * seq *
  // heads * head_dim + 2 * width * vocab). A window reduces seq in the second term. Weights that are not trained, which
  // `is_trained` tells by name, count 2 times and not 3, because they have no gradient. Blocks before the first trained
  // parameter count once, because they have no backward pass.
  double flops_per_token(Size seq, const std::function<bool(const std::string&)>& is_trained) const;
  // The same where all parameters are trained, or with adapters these alone.
  double flops_per_token(Size seq) const;

  // Where the tokens of a forward pass are.
  struct Place {
    Size first = 0;                 // position of the first token: the length of the cache
    Tensor positions = {};          // i32 [B]: one token for each sequence has this position instead
    ops::KvCache* cache = nullptr;  // a block's keys and values of earlier tokens, in generation
    Tensor document_starts = {};    // as in Batch; undefined in generation
  };
  // The modules in which the families differ.
  struct Block : Module {
    virtual Tensor forward(const Tensor& x, const Place& place) const = 0;
  };
  struct Embed : Module {
    virtual Tensor forward(const Tensor& tokens, const Place& place) const = 0;
    virtual const Tensor& table() const = 0;
  };
  struct Head : Module {
    virtual Tensor norm(const Tensor& x) const = 0;
    virtual Tensor logits(const Tensor& x, const Tensor& table) const;  // norm(x) table^T
    // Undefined if the head uses the embedding's table.
    virtual Tensor weight() const = 0;
  };

 protected:
  void set_parts(Embed& embed, std::vector<Block*> blocks, Head& head);

 private:
  // Without a `state`, the tokens may be of several documents.
  Tensor hidden(const Tensor& tokens, DecodeState* state, const Tensor& document_starts = {});
  Tensor head_table() const;

  TransformerSpec spec_;
  Embed* embed_ = nullptr;
  std::vector<Block*> blocks_;
  Head* head_ = nullptr;
};

// Radford et al. 2019: LayerNorm before attention and feed-forward network, learned positions, biases, tanh GELU, tied
// head.
class Gpt2 : public Transformer {
 public:
  explicit Gpt2(TransformerSpec spec);
};

// The model of `spec.family`. Throws UsageError.
std::unique_ptr<Transformer> make_transformer(const TransformerSpec& spec);

}  // namespace nn
}  // namespace lt
