// The list of a transformer's fields, the look-up of families by name, and the checks of a description.
#include "libtrain/nn/transformer_spec.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <type_traits>

#include "libtrain/error.h"
#include "nn/lora.h"
#include "nn/model_family.h"
#include "nn/spec_fields.h"

namespace lt::nn {
namespace {

// The product of any two values within these limits, and three times it, fits in 63 bits.
constexpr double kMostChannels = Size{1} << 28;
constexpr double kMostLayers = Size{1} << 16;

template <class Value>
[[noreturn]] void refuse(std::string_view field, std::string expected, const Value& actual) {
  throw UsageError("model", std::string(field), std::move(expected), fmt::format("{}", actual));
}

void require_in_range(const std::string&, const SpecField&) {}
void require_in_range(const std::optional<bool>&, const SpecField&) {}
void require_in_range(const Lora&, const SpecField&) {}  // see require_whole()

template <class Number>
void require_in_range(Number value, const SpecField& field) {
  const auto number = static_cast<double>(value);
  if (number >= field.low && number <= field.high) return;
  const auto text = [](double bound) { return fmt::format("{}", static_cast<Number>(bound)); };
  refuse(field.name, !(number >= field.low) ? "at least " + text(field.low) : "at most " + text(field.high), value);
}

void require_whole(const Lora& lora, const ModelFamily& family) {
  if (lora == Lora()) return;
  if (lora.rank < 1 || static_cast<double>(lora.rank) > kMostChannels) {
    refuse("lora", fmt::format("a rank of 1 to {}", kMostChannels), lora.rank);
  }
  if (!(lora.alpha > 0) || !std::isfinite(lora.alpha)) {
    refuse("lora", "an alpha above 0", lora.alpha);
  }
  for (const std::string& target : lora.targets) require_projection(family, target);
}

}  // namespace

const ModelFamily& find_family(std::string_view name) {
  std::string names;
  for (const ModelFamily* family : families()) {
    if (family->name == name) return *family;
    names += (names.empty() ? "" : ", ") + std::string(family->name);
  }
  refuse("family", "one of " + names, '"' + std::string(name) + '"');
}

const std::vector<SpecField>& spec_fields() {
  using T = TransformerSpec;
  // clang-format off
  static const std::vector<SpecField> fields = {
      // name, member, low, high, help; optional, shapes_model
      {"family", &T::family, 0, 0, "model family; empty uses the preset's"},
      {"layers", &T::layers, 1, kMostLayers, "transformer blocks; 0 uses the preset's value"},
      {"heads", &T::heads, 1, kMostChannels, "query heads per block; 0 uses the preset's value"},
      {"kv_heads", &T::kv_heads, 1, kMostChannels,
       "key and value heads per block; 0 uses the preset's value, or as many as query heads if model.heads is changed"},
      {"head_dim", &T::head_dim, 1, kMostChannels,
       "channels per head; 0 uses the preset's value, or width / heads if the preset has none or width or heads is "
       "changed", true},
      {"width", &T::width, 1, kMostChannels, "channels per token (hidden size); 0 uses the preset's value"},
      {"ffn", &T::ffn, 1, kMostChannels,
       "hidden channels of the feed-forward network; 0 uses the preset's value, or the family's default if width is "
       "changed"},
      {"vocab", &T::vocab, 1, kMostChannels,
       "vocabulary size; must exceed every token id in the data; 0 uses the preset's value"},
      {"max_seq", &T::max_seq, 1, kMostChannels, "longest sequence in tokens; 0 uses the preset's value"},
      {"norm_eps", &T::norm_eps, 0, 1,
       "epsilon added to the variance in norms; 0 uses model.from's value, else the family's", false, false},
      {"rope_base", &T::rope_base, 0, 1e12,
       "base of rotary positions (rope_theta); 0 uses model.from's value, else the family's", false, false},
      {"rope_scaling", &T::rope_scaling, 0, 0,
       "scaling of rotary positions: linear:FACTOR, llama3:FACTOR,LOW,HIGH,ORIGINAL (FACTOR >= 1, LOW < HIGH) or "
       "none; if unset, or empty in the --config file: model.from's value, else the preset's; if empty elsewhere: none",
       true},
      {"tie_embeddings", &T::tie_embeddings, 0, 0,
       "share the embedding table with the output head; auto uses the preset's value"},
      {"qk_norm", &T::qk_norm, 0, 0,
       "RMSNorm on each query and key head; auto uses model.from's value, else the family's", true},
      {"qkv_bias", &T::qkv_bias, 0, 0,
       "biases on queries, keys and values; auto uses model.from's value, else the family's", true},
      {"window", &T::window, 0, kMostChannels,
       "attention window in positions, the token's own included; 0 uses the preset's value, else no window", true},
      {"lora", &T::lora, 0, 0,
       "train only LoRA adapters, described by a {rank, alpha, targets} table; outside the --config file, pass its "
       "fields one by one, or JSON", true, false},
      {"dropout", &T::dropout, 0, 1,
       "dropout probability in training; if unset, or 0 in the --config file: the value of the checkpoint in "
       "model.from, if any, else 0",
       false, false},
  };
  // clang-format on
  return fields;
}

bool is_set(const TransformerSpec& spec, const SpecField& field) {
  return std::visit([&](auto member) { return spec.*member != std::remove_cvref_t<decltype(spec.*member)>{}; },
                    field.member);
}

bool is_equal(const TransformerSpec& a, const TransformerSpec& b, const SpecField& field) {
  return std::visit([&](auto member) { return a.*member == b.*member; }, field.member);
}

void copy_field(TransformerSpec& to, const TransformerSpec& from, const SpecField& field) {
  std::visit([&](auto member) { to.*member = from.*member; }, field.member);
}

bool is_default(const TransformerSpec& spec, const SpecField& field) {
  TransformerSpec without = spec;
  copy_field(without, {.family = ""}, field);
  return is_equal(with_defaults(without), spec, field);
}

TransformerSpec with_defaults(TransformerSpec spec) {
  const ModelFamily& family = find_family(spec.family);
  for (const SpecField& field : spec_fields()) {
    if (!is_set(spec, field)) copy_field(spec, family.defaults, field);
  }
  if (spec.kv_heads == 0) spec.kv_heads = spec.heads;
  if (spec.ffn == 0) spec.ffn = family.gated_ffn ? (spec.width * 8 / 3 + 31) / 32 * 32 : 4 * spec.width;
  spec.rope_scaling = to_string(parse_rope_scaling(spec.rope_scaling));  // one text for one meaning
  if (spec.lora.rank > 0 && spec.lora.alpha == 0) spec.lora.alpha = static_cast<double>(spec.lora.rank);
  if (spec.lora.rank > 0 && spec.lora.targets.empty()) spec.lora.targets = projection_names(family);
  if (spec.head_dim == 0 && spec.heads > 0 && spec.width % spec.heads == 0) spec.head_dim = spec.width / spec.heads;
  return spec;
}

void validate(const TransformerSpec& spec) {
  const ModelFamily& family = find_family(spec.family);
  for (const SpecField& field : spec_fields()) {
    if (field.name == "head_dim" && spec.head_dim == 0) continue;  // it follows from heads and width, see below
    std::visit([&](auto member) { require_in_range(spec.*member, field); }, field.member);
  }
  if (spec.head_dim == 0) {
    refuse("heads", fmt::format("a divisor of width {}", spec.width), spec.heads);
  }
  if (spec.heads % spec.kv_heads != 0) {
    refuse("kv_heads", fmt::format("a divisor of heads {}", spec.heads), spec.kv_heads);
  }
  if (family.rotary && spec.head_dim % 2 != 0) {
    refuse("head_dim", "an even number for rotary positions", spec.head_dim);
  }
  if (parse_rope_scaling(spec.rope_scaling).kind != RopeScaling::Kind::none && !family.rotary) {
    refuse("rope_scaling", fmt::format("none for {}, which has learned positions", spec.family),
           '"' + spec.rope_scaling + '"');
  }
  if (!(spec.dropout >= 0 && spec.dropout < 1)) refuse("dropout", "a number in [0, 1)", spec.dropout);
  require_whole(spec.lora, family);
  if (family.check != nullptr) family.check(spec);
}

}  // namespace lt::nn
