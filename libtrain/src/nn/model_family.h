// The table of model families. A row holds a family's name, defaults, checks, constructor and Hugging Face names. To
// add a family, write a file with its row and add a line to nn/families.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "libtrain/nn/models.h"
#include "libtrain/nn/transformer_spec.h"
#include "libtrain/ops/ops.h"
#include "nn/spec_fields.h"

namespace lt::nn {

// One entry of config.json: a field's value, or a constant.
struct HfEntry {
  const char* key;               // dots lead into nested objects: "rope_parameters.rope_type"
  const char* field;             // a name from spec_fields(); null: use the constant
  const char* constant;          // as JSON
  const char* absent = nullptr;  // value in the transformers library if the key is missing, JSON; null: field's default
};

// One Hugging Face tensor. It corresponds to a whole parameter of ours, or to some rows of a matrix of ours.
struct HfTensorRow {
  enum class Rows { all, q, k, v, gate, up };
  enum class Where { always, untied, qk_norm, qkv_bias };

  const char* ours;  // {} is replaced by the layer index
  const char* theirs;
  // Shape of our parameter, outermost dimension first; "q+g+g" is a sum. C width, V vocab, P max_seq, F ffn, D
  // head_dim, q = heads * D, g = kv_heads * D.
  const char* shape;
  Rows rows = Rows::all;
  bool transposed = false;  // theirs is [in, out], as in GPT-2's Conv1D
  Where where = Where::always;
};

// Return the shape of the row's whole parameter, and the rows of the parameter that form the row's tensor.
Shape shape_of(const HfTensorRow& row, const TransformerSpec& complete);
ops::RowRange rows_of(const HfTensorRow& row, const TransformerSpec& complete);

struct HfFormat {
  const char *architecture, *model_type;
  std::span<const HfEntry> config, more_config;  // config: shared by related families; more_config: this family's own
  std::span<const HfTensorRow> tensors;          // in the order of the Hugging Face implementation
};

struct ModelFamily {
  std::string_view name;
  bool gated_ffn;            // SwiGLU (Shazeer 2020)
  bool rotary;               // rotary positions (Su et al. 2021); false: learned
  TransformerSpec defaults;  // values for fields that a description leaves unset; every std::optional must be set
  void (*check)(const TransformerSpec& complete);  // further checks, throwing UsageError like validate(); null: none
  std::unique_ptr<Transformer> (*make)(const TransformerSpec& complete);
  HfFormat hf;
};

// Returns all rows, in the order in which messages list them.
const std::vector<const ModelFamily*>& families();
// Throws UsageError that names the families if there is no such family.
const ModelFamily& find_family(std::string_view name);

}  // namespace lt::nn
