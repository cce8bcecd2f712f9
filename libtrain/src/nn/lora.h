// Finds the low-rank adapters of a model by the Hugging Face names of projections (model_family.h). A projection is a
// matrix of a block in Hugging Face's format: all rows of one of our linear layers, or some of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libtrain/nn/layers.h"
#include "nn/model_family.h"

namespace lt::nn {

inline constexpr std::string_view kLoraA = ".lora_A", kLoraB = ".lora_B";

// True if the parameter with this full name belongs to an adapter.
inline bool is_adapter(std::string_view parameter) {
  return parameter.ends_with(kLoraA) || parameter.ends_with(kLoraB);
}
inline bool has_adapters(const TransformerSpec& spec) { return spec.lora.rank > 0; }

// Returns the last component of each projection's name, such as "q_proj", without duplicates.
std::vector<std::string> projection_names(const ModelFamily& family);
// Throws UsageError that lists the names unless `target` is a projection's name or its last components.
void require_projection(const ModelFamily& family, const std::string& target);
// True if the model has an adapter for the projection in this row of its family's table.
bool is_adapted(const TransformerSpec& complete, const HfTensorRow& row);

// Returns the adapter of a block's linear layer `linear`, named as in the block: "attention.qkv"; rank 0 if it has
// none.
Adapter adapter_of(const TransformerSpec& complete, std::string_view linear);

}  // namespace lt::nn
