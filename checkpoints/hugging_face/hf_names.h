// Maps this library's parameters to Hugging Face tensors and back, by the rows of a family's table (model_family.h).
// Export reads it in one direction, import in the other.
#pragma once

#include <string>
#include <vector>

#include "libtrain/nn/transformer_spec.h"
#include "libtrain/tensor/tensor.h"

namespace lt::checkpoint {

// One Hugging Face tensor: rows [row_begin, row_begin + rows) of one of our parameters, transposed or not.
struct HfTensor {
  std::string ours;
  Shape our_shape;  // shape of the whole parameter
  Size row_begin, rows;
  bool transposed;  // the Hugging Face tensor is [in, out]
  std::string theirs;
  // The first rows of its adapter's blocks in the parameters lora_a() and lora_b(); negative: it has no adapter.
  Size lora_a_begin = -1, lora_b_begin = -1;

  bool is_adapted() const { return lora_a_begin >= 0; }
  std::string lora_a() const;
  std::string lora_b() const;
  Size first() const { return row_begin * columns(); }  // first element in our parameter
  Size columns() const { return our_shape.dims() == 2 ? our_shape[1] : 1; }
  Shape their_shape() const;
};

// All tensors of a model, in the order of the Hugging Face implementation. They cover each of our parameters once,
// adapters not counted.
std::vector<HfTensor> hf_tensors(const nn::TransformerSpec& model);

}  // namespace lt::checkpoint
