// Describes a transformer; lists the presets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/dtype.h"
#include "libtrain/kernels/rope_scaling.h"

namespace lt {
namespace LT_API nn {

// Low-rank adapters of the projections in all blocks (Hu et al. 2021): W + alpha / rank B A. Only they are trained.
struct Lora {
  Size rank = 0;                     // 0: the model has no adapters
  double alpha = 0;                  // 0: rank
  std::vector<std::string> targets;  // projections, by Hugging Face's names ("q_proj", "attn.c_proj"); empty: all

  bool operator==(const Lora&) const = default;
};

// A member that is zero, empty or unset takes the default of the family (model_family.h).
struct TransformerSpec {
  std::string family = "gpt2";
  Size layers = 0, heads = 0;
  Size kv_heads = 0;  // 0: heads
  Size width = 0;
  Size ffn = 0;  // 0: 4 width; if gated, 8/3 width rounded up to a multiple of 32
  Size vocab = 0, max_seq = 0;
  std::optional<bool> tie_embeddings = std::nullopt;  // the head uses the embedding's table
  double dropout = 0;
  float norm_eps = 0;
  double rope_base = 0;  // base of rotary positions (Su et al. 2021)
  Size head_dim = 0;     // 0: width / heads
  // Stretches rotary positions: "linear:FACTOR", "llama3:FACTOR,LOW,HIGH,ORIGINAL" (RopeScaling); empty: none. All are
  // above 0 and at most 1e12, FACTOR at least 1, LOW below HIGH, ORIGINAL whole.
  std::string rope_scaling = {};
  std::optional<bool> qk_norm = std::nullopt;  // RMSNorm of each query and key head
  std::optional<bool> qkv_bias = std::nullopt;
  Size window = 0;  // keys that a query sees, its own included; 0: all up to its own
  Lora lora = {};

  // Only for complete descriptions.
  bool tied() const { return tie_embeddings.value(); }
  bool has_qk_norm() const { return qk_norm.value(); }
  bool has_qkv_bias() const { return qkv_bias.value(); }
};

// Takes the scaling of a preset away, where an empty text means the preset's.
inline constexpr const char* kNoRopeScaling = "none";
// The meaning of TransformerSpec::rope_scaling, and its text. Throws UsageError (field "model.rope_scaling").
RopeScaling parse_rope_scaling(const std::string& text);
std::string to_string(const RopeScaling& scaling);

// Completes a description. Throws UsageError for an unknown family.
TransformerSpec with_defaults(TransformerSpec spec);
// Throws UsageError (component "config", field "model.*") if a complete description does not make a model.
void validate(const TransformerSpec& spec);

struct Preset {
  std::string name;
  TransformerSpec spec;  // unset members take the family's defaults
};
const std::vector<Preset>& presets();
// Throws UsageError that lists the presets.
const TransformerSpec& preset(const std::string& name);
// The preset of this shape, ignoring dropout, epsilon and the base of rotary positions; null if there is none.
const Preset* preset_of(const TransformerSpec& spec);
// The name of that preset, or for any other shape family, layers and width: "gpt2-2x32".
std::string model_name(const TransformerSpec& spec);

}  // namespace nn
}  // namespace lt
