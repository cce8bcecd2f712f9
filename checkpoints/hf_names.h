// The correspondence between this library's parameters and those of Hugging Face models, as data: export reads it in
// one direction, import in the other.
#pragma once

#include <string>
#include <vector>

#include "libtrain/shard_map.h"

namespace lt::checkpoint {

// RunState.model, parsed.
struct ModelInfo {
  std::string family;  // gpt2 or llama
  Size layers, heads, kv_heads, width, ffn, vocab, max_seq;
  double norm_eps, rope_base, dropout;
  bool tie_embeddings;

  Size head_dim() const { return width / heads; }
};

// Throws DataError for a field that is missing, of another type or impossible.
ModelInfo parse_model(const std::string& json);

// One Hugging Face tensor: rows [row_begin, row_begin + rows) of a parameter of ours, transposed or not.
struct HfTensor {
  std::string ours;
  Shape our_shape;  // of the whole parameter
  Size row_begin, rows;
  bool transposed;  // theirs is [in, out]
  std::string theirs;

  Size columns() const { return our_shape.dims() == 2 ? our_shape[1] : 1; }
  Shape their_shape() const;
};

// All tensors of a model, in the order of the Hugging Face implementation; they cover every parameter of ours once.
std::vector<HfTensor> hf_tensors(const ModelInfo& model);

}  // namespace lt::checkpoint
