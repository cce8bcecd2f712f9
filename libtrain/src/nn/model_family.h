// The table of model families. A row has a family's name, defaults, checks, constructor and Hugging Face names. A new
// family is a file with its row and a line in src/nn/families.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "libtrain/nn/transformer_spec.h"
#include "nn/spec_fields.h"

namespace lt::nn {

class Transformer;

// One entry of config.json: the value of a field, or a constant.
struct HfEntry {
  const char* key;       // dots lead into objects: "rope_parameters.rope_type"
  const char* field;     // a name of spec_fields(); null: the constant
  const char* constant;  // as JSON
};

// One Hugging Face tensor: a parameter of ours, or the rows of one matrix in it.
struct HfTensorRow {
  enum class Rows { all, q, k, v, gate, up };
  enum class Where { always, untied, qk_norm };

  const char* ours;  // {} is the layer
  const char* theirs;
  // The shape of ours, outermost dimension first; "q+g+g" is a sum. C width, V vocab, P max_seq, F ffn, D head_dim,
  // q = heads * D, g = kv_heads * D.
  const char* shape;
  Rows rows = Rows::all;
  bool transposed = false;  // theirs is [in, out], as GPT-2's Conv1D keeps it
  Where where = Where::always;
};

struct HfFormat {
  const char *architecture, *model_type;
  std::span<const HfEntry> config, more_config;  // shared by related families; the family's own
  std::span<const HfTensorRow> tensors;          // in the order of the Hugging Face implementation
};

struct ModelFamily {
  std::string_view name;
  bool gated_ffn;            // SwiGLU (Shazeer 2020)
  bool rotary;               // rotary positions (Su et al. 2021); false: learned
  TransformerSpec defaults;  // what a description leaves unset takes these; every std::optional must be set
  void (*check)(const TransformerSpec& complete);  // the family's own refusals, UsageError as validate(); null: none
  std::unique_ptr<Transformer> (*make)(const TransformerSpec& complete);
  HfFormat hf;
};

// All rows, in the order of messages.
const std::vector<const ModelFamily*>& families();
// Throws UsageError naming the families.
const ModelFamily& find_family(std::string_view name);

}  // namespace lt::nn
