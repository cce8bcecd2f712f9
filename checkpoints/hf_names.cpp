// Maps this library's parameters to those of Hugging Face models.
#include "hf_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "libtrain/error.h"
#include "nn/model_family.h"

namespace lt::checkpoint {
namespace {

using Row = nn::HfTensorRow;

Size size_of(char letter, const nn::TransformerSpec& model) {
  switch (letter) {
    case 'C': return model.width;
    case 'V': return model.vocab;
    case 'P': return model.max_seq;
    case 'F': return model.ffn;
    case 'D': return model.head_dim;
    case 'q': return model.heads * model.head_dim;
    case 'g': return model.kv_heads * model.head_dim;
  }
  throw InternalError("checkpoint", fmt::format("name table: unknown size {}", letter));
}

Shape shape_of(const char* text, const nn::TransformerSpec& model) {
  std::vector<Size> sizes(1, 0);
  for (; *text != '\0'; ++text) {
    if (*text == ',') sizes.push_back(0);
    if (*text != ',' && *text != '+') sizes.back() += size_of(*text, model);
  }
  return Shape(std::span<const Size>(sizes));
}

// First row and number of rows.
std::pair<Size, Size> rows_of(Row::Rows rows, const Shape& whole, const nn::TransformerSpec& model) {
  const Size q = size_of('q', model), g = size_of('g', model), f = model.ffn;
  switch (rows) {
    case Row::Rows::all: return {0, whole[0]};
    case Row::Rows::q: return {0, q};
    case Row::Rows::k: return {q, g};
    case Row::Rows::v: return {q + g, g};
    case Row::Rows::gate: return {0, f};
    case Row::Rows::up: return {f, f};
  }
  return {0, 0};
}

HfTensor tensor_of(const Row& row, Size layer, const nn::TransformerSpec& model) {
  const Shape shape = shape_of(row.shape, model);
  const auto [begin, count] = rows_of(row.rows, shape, model);
  return {fmt::format(fmt::runtime(row.ours), layer),  shape, begin, count, row.transposed,
          fmt::format(fmt::runtime(row.theirs), layer)};
}

bool is_there(const Row& row, const nn::TransformerSpec& model) {
  switch (row.where) {
    case Row::Where::always: return true;
    case Row::Where::untied: return !model.tied();
    case Row::Where::qk_norm: return model.has_qk_norm();
    case Row::Where::qkv_bias: return model.has_qkv_bias();
  }
  return true;
}

}  // namespace

Shape HfTensor::their_shape() const {
  if (our_shape.dims() == 1) return {rows};
  return transposed ? Shape{columns(), rows} : Shape{rows, columns()};
}

std::vector<HfTensor> hf_tensors(const nn::TransformerSpec& model) {
  const std::span<const Row> table = nn::find_family(model.family).hf.tensors;
  const auto is_block = [](const Row& row) { return std::string_view(row.ours).starts_with("blocks."); };
  const auto blocks = std::find_if(table.begin(), table.end(), is_block);
  const auto after = std::find_if_not(blocks, table.end(), is_block);
  std::vector<HfTensor> tensors;
  const auto add = [&](auto begin, auto end, Size layer) {
    for (auto row = begin; row != end; ++row) {
      if (is_there(*row, model)) tensors.push_back(tensor_of(*row, layer, model));
    }
  };
  add(table.begin(), blocks, 0);
  for (Size layer = 0; layer < model.layers; ++layer) add(blocks, after, layer);
  add(after, table.end(), 0);
  return tensors;
}

}  // namespace lt::checkpoint
