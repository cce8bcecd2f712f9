// Qwen2 (Yang et al. 2024): Llama with biases of queries, keys and values.
#include "nn/families.h"
#include "nn/llama.h"

namespace lt::nn {
namespace {

constexpr HfEntry kQwen2Config[] = {
    {"attention_dropout", nullptr, "0.0"},
    {"use_sliding_window", nullptr, "false"},
    {"sliding_window", nullptr, "null"},
};

}  // namespace

const ModelFamily kQwen2{
    .name = "qwen2",
    .gated_ffn = true,
    .rotary = true,
    .defaults = {.norm_eps = 1e-6f, .rope_base = 1e6, .tie_embeddings = false, .qk_norm = false, .qkv_bias = true},
    .check = nullptr,
    .make = make_llama,
    .hf = {"Qwen2ForCausalLM", "qwen2", kLlamaConfig, kQwen2Config, kLlamaTensors}};

}  // namespace lt::nn
