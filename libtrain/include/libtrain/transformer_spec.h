// A transformer's description, its fields as a list, and the presets. Configuration, JSON, reports and the export
// iterate over the list: a new field is a member and a row.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libtrain/dtype.h"

namespace lt::nn {

// A member that is zero, empty or unset takes the default of the family (model_family.h).
struct TransformerSpec {
  std::string family = "gpt2";
  Size layers = 0, heads = 0;
  Size kv_heads = 0;  // 0: heads
  Size width = 0;
  Size ffn = 0;  // 0: 4 width, or 8/3 width rounded up to a multiple of 32 where the network is gated
  Size vocab = 0, max_seq = 0;
  std::optional<bool> tie_embeddings = std::nullopt;  // the head uses the embedding's table
  double dropout = 0;
  float norm_eps = 0;
  double rope_base = 0;                        // of rotary positions (Su et al. 2021)
  Size head_dim = 0;                           // 0: width / heads
  std::string rope_scaling = {};               // empty: none, the only one so far
  std::optional<bool> qk_norm = std::nullopt;  // RMSNorm of each query and key head
  std::optional<bool> qkv_bias = std::nullopt;
  Size window = 0;  // keys that a query sees, its own included; 0: all earlier ones

  // Of a complete description.
  bool tied() const { return tie_embeddings.value(); }
  bool has_qk_norm() const { return qk_norm.value(); }
  bool has_qkv_bias() const { return qkv_bias.value(); }
};

// One field. `low` and `high` bound a value that is set.
struct SpecField {
  std::string_view name;
  std::variant<std::string TransformerSpec::*, Size TransformerSpec::*, float TransformerSpec::*,
               double TransformerSpec::*, std::optional<bool> TransformerSpec::*>
      member;
  double low, high;
  std::string_view help;
  // Left out of a checkpoint's JSON at its default, and may be missing there. Set it for every new field.
  bool optional = false;
  bool shapes_model = true;  // false: models that differ in it have the same preset
};
const std::vector<SpecField>& spec_fields();

bool is_set(const TransformerSpec& spec, const SpecField& field);
bool is_equal(const TransformerSpec& a, const TransformerSpec& b, const SpecField& field);
void copy_field(TransformerSpec& to, const TransformerSpec& from, const SpecField& field);
// Whether a complete description has what with_defaults() would fill in.
bool is_default(const TransformerSpec& spec, const SpecField& field);

// Completes a description. Throws UsageError for an unknown family.
TransformerSpec with_defaults(TransformerSpec spec);
// Throws UsageError (part "config", field "model.*") for a complete description that makes no model.
void validate(const TransformerSpec& spec);

struct Preset {
  std::string name;
  TransformerSpec spec;  // unset members take the family's defaults
};
const std::vector<Preset>& presets();
// Throws UsageError naming the presets.
const TransformerSpec& preset(const std::string& name);
// The preset of this shape, whatever its dropout, epsilon and base of rotary positions; null where there is none.
const Preset* preset_of(const TransformerSpec& spec);
// That preset's name; of any other shape its family, layers and width: "gpt2-2x32".
std::string model_name(const TransformerSpec& spec);

}  // namespace lt::nn
