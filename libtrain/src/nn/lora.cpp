// Matches the targets of model.lora with the rows of a family's table.
#include "nn/lora.h"

#include <fmt/format.h>

#include <algorithm>

#include "libtrain/error.h"

namespace lt::nn {
namespace {

constexpr std::string_view kBlock = "blocks.{}.", kLayer = ".{}.", kWeight = ".weight";

bool is_projection(const HfTensorRow& row) {
  return std::string_view(row.ours).starts_with(kBlock) && std::string_view(row.shape).find(',') != std::string::npos;
}

std::string_view without_weight(std::string_view name) { return name.substr(0, name.size() - kWeight.size()); }

// "attention.qkv" and "self_attn.q_proj".
std::string_view linear_of(const HfTensorRow& row) {
  return without_weight(std::string_view(row.ours).substr(kBlock.size()));
}
std::string_view module_of(const HfTensorRow& row) {
  const std::string_view name = row.theirs;
  return without_weight(name.substr(name.find(kLayer) + kLayer.size()));
}

// As PEFT matches: whole, or behind a dot.
bool is_end_of(std::string_view target, std::string_view module) {
  if (!module.ends_with(target)) return false;
  return module.size() == target.size() || module[module.size() - target.size() - 1] == '.';
}

}  // namespace

std::vector<std::string> projection_names(const ModelFamily& family) {
  std::vector<std::string> names;
  for (const HfTensorRow& row : family.hf.tensors) {
    if (!is_projection(row)) continue;
    const std::string_view module = module_of(row);
    std::string name(module.substr(module.rfind('.') + 1));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

void require_projection(const ModelFamily& family, const std::string& target) {
  for (const HfTensorRow& row : family.hf.tensors) {
    if (is_projection(row) && is_end_of(target, module_of(row))) return;
  }
  throw UsageError(
      "model", "lora",
      fmt::format("targets among the projections of {} ({})", family.name, fmt::join(projection_names(family), ", ")),
      fmt::format("\"{}\"", target));
}

bool is_adapted(const TransformerSpec& spec, const HfTensorRow& row) {
  if (!has_adapters(spec) || !is_projection(row)) return false;
  return std::any_of(spec.lora.targets.begin(), spec.lora.targets.end(),
                     [&](const std::string& target) { return is_end_of(target, module_of(row)); });
}

Adapter adapter_of(const TransformerSpec& spec, std::string_view linear) {
  Adapter adapter;
  for (const HfTensorRow& row : find_family(spec.family).hf.tensors) {
    if (is_adapted(spec, row) && linear_of(row) == linear) adapter.shape.ranges.push_back(rows_of(row, spec));
  }
  if (adapter.shape.ranges.empty()) return {};
  adapter.rank = spec.lora.rank;
  adapter.shape.scale = spec.lora.alpha / static_cast<double>(spec.lora.rank);
  return adapter;
}

}  // namespace lt::nn
