// The table of presets: shapes near those of published models, and published models themselves.
#include <algorithm>

#include "libtrain/error.h"
#include "libtrain/nn/transformer_spec.h"
#include "nn/spec_fields.h"

namespace lt::nn {

namespace {

constexpr const char* kLlama32 = "llama3:32,1,4,8192";

TransformerSpec shape(const char* family, Size layers, Size heads, Size kv_heads, Size width, Size ffn, Size vocab,
                      Size max_seq, bool tied) {
  return {.family = family,
          .layers = layers,
          .heads = heads,
          .kv_heads = kv_heads,
          .width = width,
          .ffn = ffn,
          .vocab = vocab,
          .max_seq = max_seq,
          .tie_embeddings = tied};
}

}  // namespace

const std::vector<Preset>& presets() {
  // clang-format off
  static const std::vector<Preset> table = {
      // name                family  layers heads kv  width  ffn    vocab  max_seq tied
      {"gpt2-124m",  shape("gpt2",  12, 12, 12,  768,  3072,  50304, 1024, true)},
      {"gpt2-350m",  shape("gpt2",  24, 16, 16, 1024,  4096,  50304, 1024, true)},
      {"gpt2-774m",  shape("gpt2",  36, 20, 20, 1280,  5120,  50304, 1024, true)},
      {"gpt2-1.5b",  shape("gpt2",  48, 25, 25, 1600,  6400,  50304, 1024, true)},
      {"llama-1b",   shape("llama", 16, 32,  8, 2048,  8192, 128256, 8192, false)},
      {"llama-3b",   shape("llama", 28, 24,  8, 3072,  8192, 128256, 8192, false)},
      {"llama-8b",   shape("llama", 32, 32,  8, 4096, 14336, 128256, 8192, false)},
      // Published models: with their own positions and heads.
      {"llama-70b",    shape("llama",   80, 64, 8, 8192, 28672, 128256,   8192, false)},
      {"llama-3.2-1b", {.family = "llama", .layers = 16, .heads = 32, .kv_heads = 8, .width = 2048, .ffn = 8192,
                        .vocab = 128256, .max_seq = 131072, .rope_scaling = kLlama32, .tie_embeddings = true}},
      {"llama-3.2-3b", {.family = "llama", .layers = 28, .heads = 24, .kv_heads = 8, .width = 3072, .ffn = 8192,
                        .vocab = 128256, .max_seq = 131072, .rope_scaling = kLlama32, .tie_embeddings = true}},
      {"qwen3-0.6b",   {.family = "qwen3", .layers = 28, .heads = 16, .kv_heads = 8, .head_dim = 128, .width = 1024,
                        .ffn = 3072, .vocab = 151936, .max_seq = 40960, .tie_embeddings = true}},
      {"qwen3-8b",     {.family = "qwen3", .layers = 36, .heads = 32, .kv_heads = 8, .head_dim = 128, .width = 4096,
                        .ffn = 12288, .vocab = 151936, .max_seq = 40960, .tie_embeddings = false}},
      {"mistral-7b",   {.family = "mistral", .layers = 32, .heads = 32, .kv_heads = 8, .width = 4096, .ffn = 14336,
                        .vocab = 32000, .max_seq = 32768, .tie_embeddings = false, .window = 4096}},
      {"gpt-tiny",   shape("gpt2",   4,  4,  4,  128,   512,    256,  256, true)},
      {"llama-tiny", shape("llama",  4,  4,  2,  128,   352,    256,  256, false)},
  };
  // clang-format on
  return table;
}

const TransformerSpec& preset(const std::string& name) {
  std::string names;
  for (const Preset& entry : presets()) {
    if (entry.name == name) return entry.spec;
    names += (names.empty() ? "" : ", ") + entry.name;
  }
  throw UsageError("model", "preset", "one of " + names, '"' + name + '"');
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
