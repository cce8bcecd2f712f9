// Qwen3 (Yang et al. 2025): Llama with normalised queries and keys.
#include "nn/families.h"
#include "nn/llama.h"

namespace lt::nn {
namespace {

constexpr HfEntry kQwen3Config[] = {
    {"attention_bias", nullptr, "false"},
    {"attention_dropout", nullptr, "0.0"},
    {"use_sliding_window", nullptr, "false"},
    {"sliding_window", nullptr, "null"},
};

}  // namespace

const ModelFamily kQwen3{
    .name = "qwen3",
    .gated_ffn = true,
    .rotary = true,
    .defaults = {.norm_eps = 1e-6f, .rope_base = 1e6, .tie_embeddings = false, .qk_norm = true, .qkv_bias = false},
    .check = nullptr,
    .make = make_llama,
    .hf = {"Qwen3ForCausalLM", "qwen3", kLlamaConfig, kQwen3Config, kLlamaTensors}};

}  // namespace lt::nn
