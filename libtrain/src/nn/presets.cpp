// The table of published model shapes.
#include <algorithm>

#include "libtrain/error.h"
#include "libtrain/nn/transformer_spec.h"
#include "nn/spec_fields.h"

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
  for (const Preset& entry : presets()) {
    if (entry.spec.family != spec.family) continue;
    const TransformerSpec known = with_defaults(entry.spec), complete = with_defaults(spec);
    const bool same = std::all_of(spec_fields().begin(), spec_fields().end(), [&](const SpecField& field) {
      return !field.shapes_model || is_equal(known, complete, field);
    });
    if (same) return &entry;
  }
  return nullptr;
}

std::string model_name(const TransformerSpec& spec) {
  const Preset* known = preset_of(spec);
  return known != nullptr ? known->name
                          : spec.family + "-" + std::to_string(spec.layers) + "x" + std::to_string(spec.width);
}

}  // namespace lt::nn
