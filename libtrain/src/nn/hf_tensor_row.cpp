// Evaluates the shape of a row of a family's table of tensors (HfTensorRow) for one model.
#include <span>
#include <string>
#include <vector>

#include "libtrain/error.h"
#include "nn/model_family.h"

namespace lt::nn {
namespace {

Size size_of(char letter, const TransformerSpec& model) {
  switch (letter) {
    case 'C': return model.width;
    case 'V': return model.vocab;
    case 'P': return model.max_seq;
    case 'F': return model.ffn;
    case 'D': return model.head_dim;
    case 'q': return model.heads * model.head_dim;
    case 'g': return model.kv_heads * model.head_dim;
  }
  throw InternalError("nn", std::string("name table: unknown size ") + letter);
}

}  // namespace

Shape shape_of(const HfTensorRow& row, const TransformerSpec& model) {
  std::vector<Size> sizes(1, 0);
  for (const char* text = row.shape; *text != '\0'; ++text) {
    if (*text == ',') sizes.push_back(0);
    if (*text != ',' && *text != '+') sizes.back() += size_of(*text, model);
  }
  return Shape(std::span<const Size>(sizes));
}

ops::RowRange rows_of(const HfTensorRow& row, const TransformerSpec& model) {
  using Rows = HfTensorRow::Rows;
  const Size q = size_of('q', model), g = size_of('g', model), f = model.ffn;
  switch (row.rows) {
    case Rows::all: return {0, shape_of(row, model)[0]};
    case Rows::q: return {0, q};
    case Rows::k: return {q, g};
    case Rows::v: return {q + g, g};
    case Rows::gate: return {0, f};
    case Rows::up: return {f, f};
  }
  return {0, 0};
}

}  // namespace lt::nn
