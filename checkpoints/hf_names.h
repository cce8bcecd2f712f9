// The correspondence between this library's parameters and those of Hugging Face models, by the rows of a family's
// table (model_family.h): export reads it in one direction, import in the other.
#pragma once

#include <string>
#include <vector>

#include "libtrain/nn/transformer_spec.h"
#include "libtrain/tensor/tensor.h"

namespace lt::checkpoint {

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
std::vector<HfTensor> hf_tensors(const nn::TransformerSpec& model);

}  // namespace lt::checkpoint
