// Code shared by the families that resemble Llama, and their Hugging Face names. They use RMSNorm, rotary positions,
// grouped heads and SwiGLU, and no biases except optional ones of queries, keys and values.
#pragma once

#include <memory>

#include "nn/model_family.h"

namespace lt::nn {

std::unique_ptr<Transformer> make_llama(const TransformerSpec& complete);

inline constexpr HfEntry kLlamaConfig[] = {
    {"hidden_act", nullptr, "\"silu\""},
    {"num_hidden_layers", "layers", nullptr},
    {"num_attention_heads", "heads", nullptr},
    {"num_key_value_heads", "kv_heads", nullptr},
    {"head_dim", "head_dim", nullptr},
    {"hidden_size", "width", nullptr},
    {"intermediate_size", "ffn", nullptr},
    {"max_position_embeddings", "max_seq", nullptr},
    {"rms_norm_eps", "norm_eps", nullptr},
    {"rope_theta", "rope_base", nullptr},  // read by transformers 4
    {"rope_parameters.rope_type", nullptr, "\"default\""},
    {"rope_parameters.rope_theta", "rope_base", nullptr},  // read by transformers 5
};

inline constexpr HfTensorRow kLlamaTensors[] = {
    {"embedding.wte.weight", "model.embed_tokens.weight", "V,C"},
    {"blocks.{}.norm1.weight", "model.layers.{}.input_layernorm.weight", "C"},
    {"blocks.{}.attention.qkv.weight", "model.layers.{}.self_attn.q_proj.weight", "q+g+g,C", HfTensorRow::Rows::q},
    {"blocks.{}.attention.qkv.weight", "model.layers.{}.self_attn.k_proj.weight", "q+g+g,C", HfTensorRow::Rows::k},
    {"blocks.{}.attention.qkv.weight", "model.layers.{}.self_attn.v_proj.weight", "q+g+g,C", HfTensorRow::Rows::v},
    {"blocks.{}.attention.qkv.bias", "model.layers.{}.self_attn.q_proj.bias", "q+g+g", HfTensorRow::Rows::q, false,
     HfTensorRow::Where::qkv_bias},
    {"blocks.{}.attention.qkv.bias", "model.layers.{}.self_attn.k_proj.bias", "q+g+g", HfTensorRow::Rows::k, false,
     HfTensorRow::Where::qkv_bias},
    {"blocks.{}.attention.qkv.bias", "model.layers.{}.self_attn.v_proj.bias", "q+g+g", HfTensorRow::Rows::v, false,
     HfTensorRow::Where::qkv_bias},
    {"blocks.{}.attention.q_norm.weight", "model.layers.{}.self_attn.q_norm.weight", "D", HfTensorRow::Rows::all, false,
     HfTensorRow::Where::qk_norm},
    {"blocks.{}.attention.k_norm.weight", "model.layers.{}.self_attn.k_norm.weight", "D", HfTensorRow::Rows::all, false,
     HfTensorRow::Where::qk_norm},
    {"blocks.{}.attention.proj.weight", "model.layers.{}.self_attn.o_proj.weight", "C,q"},
    {"blocks.{}.norm2.weight", "model.layers.{}.post_attention_layernorm.weight", "C"},
    {"blocks.{}.ffn.gate_up.weight", "model.layers.{}.mlp.gate_proj.weight", "F+F,C", HfTensorRow::Rows::gate},
    {"blocks.{}.ffn.gate_up.weight", "model.layers.{}.mlp.up_proj.weight", "F+F,C", HfTensorRow::Rows::up},
    {"blocks.{}.ffn.down.weight", "model.layers.{}.mlp.down_proj.weight", "C,F"},
    {"head.norm.weight", "model.norm.weight", "C"},
    {"head.lm.weight", "lm_head.weight", "V,C", HfTensorRow::Rows::all, false, HfTensorRow::Where::untied},
};

}  // namespace lt::nn
