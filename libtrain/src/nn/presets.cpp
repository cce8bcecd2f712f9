// The published shapes, as a table, and what makes a transformer's description valid.
#include <tuple>

#include "libtrain/error.h"
#include "libtrain/models.h"

namespace lt::nn {

const std::vector<Preset>& presets() {
  // clang-format off
  static const std::vector<Preset> table = {
      // name           family  layers heads kv  width  ffn    vocab  max_seq tied
      {"gpt2-124m",  {"gpt2",  12, 12, 12,  768,  3072,  50304, 1024, true}},
      {"gpt2-350m",  {"gpt2",  24, 16, 16, 1024,  4096,  50304, 1024, true}},
      {"gpt2-774m",  {"gpt2",  36, 20, 20, 1280,  5120,  50304, 1024, true}},
      {"gpt2-1.5b",  {"gpt2",  48, 25, 25, 1600,  6400,  50304, 1024, true}},
      {"llama-1b",   {"llama", 16, 32,  8, 2048,  8192, 128256, 8192, false}},
      {"llama-3b",   {"llama", 28, 24,  8, 3072,  8192, 128256, 8192, false}},
      {"llama-8b",   {"llama", 32, 32,  8, 4096, 14336, 128256, 8192, false}},
      {"gpt-tiny",   {"gpt2",   4,  4,  4,  128,   512,    256,  256, true}},
      {"llama-tiny", {"llama",  4,  4,  2,  128,   352,    256,  256, false}},
  };
  // clang-format on
  return table;
}

const TransformerSpec& preset(const std::string& name) {
  std::string names;
  for (const Preset& entry : presets()) {
    if (entry.name == name) return entry.spec;
    names += (names.empty() ? "" : " ") + entry.name;
  }
  throw UsageError("config", "model.preset: \"" + name + "\" is not a preset", "presets: " + names);
}

const Preset* preset_of(const TransformerSpec& spec) {
  const auto shape = [](const TransformerSpec& s) {
    return std::tuple(s.family, s.layers, s.heads, s.kv_heads, s.width, s.ffn, s.vocab, s.max_seq, s.tied());
  };
  for (const Preset& entry : presets()) {
    if (shape(entry.spec) == shape(spec)) return &entry;
  }
  return nullptr;
}

std::string model_name(const TransformerSpec& spec) {
  const Preset* known = preset_of(spec);
  return known != nullptr ? known->name
                          : spec.family + "-" + std::to_string(spec.layers) + "x" + std::to_string(spec.width);
}

TransformerSpec with_defaults(TransformerSpec spec) {
  if (spec.kv_heads == 0) spec.kv_heads = spec.heads;
  if (spec.ffn == 0) spec.ffn = spec.family == "llama" ? (spec.width * 8 / 3 + 31) / 32 * 32 : 4 * spec.width;
  return spec;
}

void validate(const TransformerSpec& spec) {
  const auto refuse = [](const std::string& what) {
    throw UsageError("config", what, "`ltrain plan --model.preset=NAME` prints the shape of a preset");
  };
  const auto positive = [&](const char* field, Size value) {
    if (value < 1) refuse(std::string("model.") + field + ": expected at least 1, got " + std::to_string(value));
  };
  if (spec.family != "gpt2" && spec.family != "llama") {
    refuse("model.family: expected gpt2 or llama, got \"" + spec.family + "\"");
  }
  positive("layers", spec.layers), positive("heads", spec.heads), positive("kv_heads", spec.kv_heads);
  positive("width", spec.width), positive("ffn", spec.ffn), positive("vocab", spec.vocab),
      positive("max_seq", spec.max_seq);
  if (spec.width % spec.heads != 0) {
    refuse("model.heads: " + std::to_string(spec.heads) + " does not divide model.width " + std::to_string(spec.width));
  }
  if (spec.heads % spec.kv_heads != 0) {
    refuse("model.kv_heads: " + std::to_string(spec.kv_heads) + " does not divide model.heads " +
           std::to_string(spec.heads));
  }
  if (spec.family == "gpt2" && spec.kv_heads != spec.heads) {
    refuse("model.kv_heads: gpt2 has as many as heads (" + std::to_string(spec.heads) + "), got " +
           std::to_string(spec.kv_heads));
  }
  if (spec.family == "llama" && spec.head_dim() % 2 != 0) {
    refuse("model.width: rotary positions want an even width / heads, got " + std::to_string(spec.head_dim()));
  }
  if (!(spec.dropout >= 0 && spec.dropout < 1))
    refuse("model.dropout: expected a number in [0, 1), got " + std::to_string(spec.dropout));
}

}  // namespace lt::nn
