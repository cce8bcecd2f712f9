// Mistral (Jiang et al. 2023): Llama with an attention window if model.window is set.
#include "nn/families.h"
#include "nn/llama.h"

namespace lt::nn {
namespace {

constexpr HfEntry kMistralConfig[] = {
    {"sliding_window", "window", nullptr, "4096"},
    {"attention_dropout", nullptr, "0.0"},
};

}  // namespace

const ModelFamily kMistral{
    .name = "mistral",
    .gated_ffn = true,
    .rotary = true,
    .defaults = {.norm_eps = 1e-5f, .rope_base = 10000, .tie_embeddings = false, .qk_norm = false, .qkv_bias = false},
    .check = nullptr,
    .make = make_llama,
    .hf = {"MistralForCausalLM", "mistral", kLlamaConfig, kMistralConfig, kLlamaTensors}};

}  // namespace lt::nn
