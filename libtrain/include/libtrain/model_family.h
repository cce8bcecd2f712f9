// Families of transformers: a row says what a family is called, what its fields default to, which descriptions it
// refuses, how its model is made and what Hugging Face's format calls its parts. A new family is a file with its row,
// and a line in src/nn/families.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "libtrain/transformer_spec.h"

namespace lt::nn {

class Transformer;

// One entry of a config.json: a field of the description, or what all models of the family have.
struct HfEntry {
  const char* key;       // dots lead into objects: "rope_parameters.rope_type"
  const char* field;     // a name of spec_fields(); null: the constant
  const char* constant;  // as JSON
};

// One tensor: all rows of a parameter of ours, or those of one of the matrices in it.
struct HfTensorRow {
  enum class Rows { all, q, k, v, gate, up };
  enum class Where { always, untied, qk_norm };

  const char* ours;  // {} is the layer
  const char* theirs;
  // Of ours: outermost first, sums as "q+g+g". C width, V vocab, P max_seq, F ffn, D head_dim, q heads x D, g kv_heads
  // x D.
  const char* shape;
  Rows rows = Rows::all;
  bool transposed = false;  // theirs is [in, out], as GPT-2's Conv1D keeps it
  Where where = Where::always;
};

struct HfFormat {
  const char *architecture, *model_type;
  std::span<const HfEntry> config, more_config;  // one after the other
  std::span<const HfTensorRow> tensors;          // in the order of the Hugging Face implementation
};

struct ModelFamily {
  std::string_view name;
  bool gated_ffn;                                  // SwiGLU (Shazeer 2020)
  bool rotary;                                     // positions (Su et al. 2021); else they are learned
  TransformerSpec defaults;                        // of what a description leaves unset
  void (*check)(const TransformerSpec& complete);  // throws as validate(); null: nothing beyond it
  std::unique_ptr<Transformer> (*make)(const TransformerSpec& complete);
  HfFormat hf;
};

const std::vector<const ModelFamily*>& families();
// Throws UsageError naming the families.
const ModelFamily& find_family(std::string_view name);

}  // namespace lt::nn
