// Export to the Hugging Face format.
#pragma once

#include <filesystem>

namespace lt::checkpoint {

// Writes `out_directory` with config.json and model.safetensors (f32), which `transformers` loads as GPT2LMHeadModel or
// LlamaForCausalLM, and tokenizer.json where the checkpoint has one in Hugging Face's own format. The folder is written
// beside and renamed, so it is there whole or not at all. Throws DataError where the checkpoint is damaged or of
// another model family, or where `out_directory` exists and is not empty.
void export_hf(const std::filesystem::path& step_directory, const std::filesystem::path& out_directory);

}  // namespace lt::checkpoint
