// Transformers: the code that all model families share, and a factory function.
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

// The keys and values that all layers have cached during generation, for B sequences.
struct DecodeState {
  std::vector<ops::KvCache> layers = {};
  Size length = 0;      // tokens held per sequence; with `lengths`, the largest of them
  Tensor lengths = {};  // i32 [B]: tokens held by each sequence, as in KvCache::lengths; undefined: `length` for all

  // Returns the state of sequence b alone, without `lengths`. It shares this state's memory.
  DecodeState row(Size b) const;
};

// A causal language model on token ids. B is the number of sequences, T the tokens of each, V the vocabulary size.
// Batch inputs and targets are i32 [B, T] in [0, V). With Batch::document_starts, attention and positions stay inside
// documents. loss() and logits() throw UsageError if the tokens have another shape, if there are none, and if T exceeds
// max_seq.
class Transformer : public Model {
 public:
  explicit Transformer(const TransformerSpec& spec);

  const TransformerSpec& spec() const { return spec_; }
  Tensor loss(const Batch& batch) override;
  ModelFacts facts(Size seq) const override;
  Size default_seq() const override { return spec_.max_seq; }
  // Returns logits [B, T, V] of tokens [B, T]. Records no gradient.
  // With `state`, the tokens continue its sequences, and the result is [B, 1, V], for the last token only. logits()
  // adds T to state->length; the caller must update state->lengths. Throws UsageError for a state of another model.
  Tensor logits(const Tensor& tokens, DecodeState* state = nullptr);
  // Allocates an empty state for `batch` sequences of up to `capacity` tokens, in the parameters' dtype and on their
  // device. Throws UsageError before the parameters are bound.
  DecodeState decode_state(Size batch, Size capacity) const;

  // FLOPs per token of training on sequences of `seq` tokens: 3 * (2 * matmul weights of all blocks + 2 * layers * seq
  // * heads * head_dim + 2 * width * vocab). A window reduces seq in the second term. `is_trained` returns true for the
  // name of a trained parameter. The factor 3 becomes 2 for frozen weights, because they have no gradient, and 1 for
  // blocks before the first trained parameter, because they have no backward pass.
  double flops_per_token(Size seq, const std::function<bool(const std::string&)>& is_trained) const;
  // Assumes that all parameters are trained, or only the adapters if the model has any.
  double flops_per_token(Size seq) const;

  // Positions and cached context of the tokens of a forward pass.
  struct Positions {
    Size first = 0;                 // position of the first token: the number of cached tokens
    Tensor per_sequence = {};       // i32 [B]: position of each sequence's one token; replaces `first` if defined
    ops::KvCache* cache = nullptr;  // keys and values of earlier tokens for this block; null in training
    Tensor document_starts = {};    // as in Batch; undefined in generation
  };
  // The modules that differ between families. x is [B, T, width].
  struct Block : Module {
    virtual Tensor forward(const Tensor& x, const Positions& positions) const = 0;
  };
  struct Embed : Module {
    virtual Tensor forward(const Tensor& tokens, const Positions& positions) const = 0;
    virtual const Tensor& table() const = 0;
  };
  struct Head : Module {
    virtual Tensor norm(const Tensor& x) const = 0;
    virtual Tensor logits(const Tensor& x, const Tensor& table) const;  // norm(x) table^T
    // Returns the head's own table [V, width]; undefined if the head uses the embedding's table.
    virtual Tensor weight() const = 0;
  };

 protected:
  void set_parts(Embed& embed, std::vector<Block*> blocks, Head& head);

 private:
  // Runs the embedding and all blocks. `document_starts` requires that `state` is null.
  Tensor hidden(const Tensor& tokens, DecodeState* state, const Tensor& document_starts = {});
  Tensor head_table() const;

  TransformerSpec spec_;
  Embed* embed_ = nullptr;
  std::vector<Block*> blocks_;
  Head* head_ = nullptr;
};

// GPT-2 (Radford et al. 2019): LayerNorm before attention and feed-forward network, learned positions, biases, tanh
// GELU, tied head.
class Gpt2 : public Transformer {
 public:
  explicit Gpt2(TransformerSpec spec);
};

// Makes a model of family `spec.family`. Unset members of `spec` get defaults. Throws UsageError as with_defaults() and
// validate() do.
std::unique_ptr<Transformer> make_transformer(const TransformerSpec& spec);

}  // namespace nn
}  // namespace lt
