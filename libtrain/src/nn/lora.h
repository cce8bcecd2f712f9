// Low-rank adapters by the names of projections, from the tensors of a family's blocks in Hugging Face's format
// (model_family.h). A projection is one such matrix: a whole linear layer of ours, or some rows of one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libtrain/nn/layers.h"
#include "nn/model_family.h"

namespace lt::nn {

inline constexpr std::string_view kLoraA = ".lora_A", kLoraB = ".lora_B";

// Whether a parameter, by its full name, is an adapter's.
inline bool is_adapter(std::string_view parameter) {
  return parameter.ends_with(kLoraA) || parameter.ends_with(kLoraB);
}
inline bool has_adapters(const TransformerSpec& spec) { return spec.lora.rank > 0; }

// The last part of each projection's name, in order: "q_proj".
std::vector<std::string> projection_names(const ModelFamily& family);
// Throws UsageError, which lists the names, unless `target` is the end of some projection's name.
void require_projection(const ModelFamily& family, const std::string& target);
// Whether the model adapts the projection that this row of its family's table describes.
bool is_adapted(const TransformerSpec& complete, const HfTensorRow& row);

// The adapter of a block's linear layer, by its name in the block: "attention.qkv".
Adapter adapter_of(const TransformerSpec& complete, std::string_view linear);

}  // namespace lt::nn
