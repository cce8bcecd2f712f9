// Expands a family's table to the tensors of a model.
#include "checkpoints/hugging_face/hf_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "nn/lora.h"
#include "nn/model_family.h"

namespace lt::checkpoint {
namespace {

using Row = nn::HfTensorRow;

HfTensor tensor_of(const Row& row, Size layer, const nn::TransformerSpec& model) {
  const auto [begin, count] = nn::rows_of(row, model);
  return {fmt::format(fmt::runtime(row.ours), layer),  nn::shape_of(row, model), begin, count, row.transposed,
          fmt::format(fmt::runtime(row.theirs), layer)};
}

// Places the blocks of the last tensor's adapter behind those of the same parameter's earlier tensors.
void place_adapter(std::vector<HfTensor>& tensors, Size rank) {
  HfTensor& last = tensors.back();
  last.lora_a_begin = last.lora_b_begin = 0;
  for (auto earlier = tensors.rbegin() + 1; earlier != tensors.rend() && earlier->ours == last.ours; ++earlier) {
    if (!earlier->is_adapted()) continue;
    last.lora_a_begin += rank, last.lora_b_begin += earlier->rows;
  }
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

std::string adapter_name(const std::string& ours, std::string_view name) {
  return ours.substr(0, ours.rfind('.')) + std::string(name);
}

}  // namespace

std::string HfTensor::lora_a() const { return adapter_name(ours, nn::kLoraA); }
std::string HfTensor::lora_b() const { return adapter_name(ours, nn::kLoraB); }

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
      if (!is_there(*row, model)) continue;
      tensors.push_back(tensor_of(*row, layer, model));
      if (nn::is_adapted(model, *row)) place_adapter(tensors, model.lora.rank);
    }
  };
  add(table.begin(), blocks, 0);
  for (Size layer = 0; layer < model.layers; ++layer) add(blocks, after, layer);
  add(after, table.end(), 0);
  return tensors;
}

}  // namespace lt::checkpoint
