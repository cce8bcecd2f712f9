// Exports adapters: added to their base, or as PEFT files.
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoints/format/manifest.h"
#include "checkpoints/hugging_face/hf_names.h"

namespace lt::checkpoint {

// A checkpoint with adapters, as an export reads it.
struct AdapterSource {
  const std::filesystem::path& step;
  const Manifest& manifest;
  const std::unordered_map<std::string, std::string>& kinds;  // by parameter
  const nn::Lora& lora;
};

// weight += (alpha / rank) B A, for the rows of one tensor.
void add_adapter(const AdapterSource& from, const HfTensor& tensor, std::vector<float>& weight);

// Writes adapter_config.json and adapter_model.safetensors into an existing folder. The config names `base` unless it
// is empty.
void write_adapters(const AdapterSource& from, const std::vector<HfTensor>& tensors,
                    const std::filesystem::path& folder, DType dtype, const std::string& base);

}  // namespace lt::checkpoint
