// The description of a transformer, and the table of presets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/dtype.h"
#include "libtrain/kernels/rope_scaling.h"

namespace lt {
namespace LT_API nn {

// Low-rank adapters of projections in all blocks: W + alpha / rank * B A (Hu et al. 2021). Only adapters are trained.
struct Lora {
  Size rank = 0;                          // 0: the model has no adapters
  double alpha = 0;                       // 0: same as rank
  std::vector<std::string> targets = {};  // Hugging Face names of projections ("q_proj", "attn.c_proj"); empty: all

  bool operator==(const Lora&) const = default;
};

// The shape and options of a transformer, in the order of docs/reference/configuration.md. with_defaults() completes
// it: a member that is zero, empty or unset gets the family's default (src/nn/model_family.h).
struct TransformerSpec {
  std::string family = "gpt2";
  Size layers = 0, heads = 0;  // blocks; query heads per block
  Size kv_heads = 0;           // key and value heads per block; 0: same as heads
  Size head_dim = 0;           // channels per head; 0: width / heads
  Size width = 0;              // channels per token
  // Channels in the feed-forward network; 0: 4 width; if gated, 8/3 width rounded up to a multiple of 32.
  Size ffn = 0;
  Size vocab = 0, max_seq = 0;  // number of token ids; longest sequence in tokens
  float norm_eps = 0;           // added to the variance in norms
  double rope_base = 0;         // base of rotary positions (Su et al. 2021)
  // Stretches rotary positions: "linear:FACTOR" or "llama3:FACTOR,LOW,HIGH,ORIGINAL" (RopeScaling); empty: no scaling.
  // All numbers are above 0 and at most 1e12. FACTOR is at least 1, LOW is below HIGH, ORIGINAL is an integer.
  std::string rope_scaling = {};
  std::optional<bool> tie_embeddings = std::nullopt;  // the head uses the embedding's table
  std::optional<bool> qk_norm = std::nullopt;         // RMSNorm of each query and key head
  std::optional<bool> qkv_bias = std::nullopt;        // biases of queries, keys and values
  Size window = 0;                                    // keys that a query sees, including its own; 0: all up to its own
  Lora lora = {};
  double dropout = 0;  // probability in [0, 1)

  // Only for completed descriptions.
  bool tied() const { return tie_embeddings.value(); }
  bool has_qk_norm() const { return qk_norm.value(); }
  bool has_qkv_bias() const { return qkv_bias.value(); }
};

// The text for "no scaling" in a configuration, in which an empty text means the preset's scaling.
inline constexpr const char* kNoRopeScaling = "none";
// Parses TransformerSpec::rope_scaling; to_string() is the inverse. Throws UsageError (component "model", field
// "rope_scaling") for invalid text.
RopeScaling parse_rope_scaling(const std::string& text);
std::string to_string(const RopeScaling& scaling);

// Returns the completed description. Throws UsageError for an unknown family and for a bad rope_scaling.
TransformerSpec with_defaults(TransformerSpec spec);
// Throws UsageError (component "model", field: the member's name) if a completed description is not a valid model.
void validate(const TransformerSpec& spec);

struct Preset {
  std::string name;
  TransformerSpec spec;  // unset members get the family's defaults
};
const std::vector<Preset>& presets();
// Throws UsageError, which lists all presets, if there is no preset `name`.
const TransformerSpec& preset(const std::string& name);
// Returns the preset with this shape, or null if there is none. Ignores dropout, norm_eps, rope_base and lora.
const Preset* preset_of(const TransformerSpec& spec);
// Returns the name of preset_of(spec). If there is none, returns family, layers and width: "gpt2-2x32".
std::string model_name(const TransformerSpec& spec);

}  // namespace nn
}  // namespace lt
