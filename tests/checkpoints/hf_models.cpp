// Makes a tiny model of every family for the export tests.
#include "checkpoints/hf_models.h"

#include <string_view>

namespace lt_test {
using namespace lt;
namespace {

constexpr Size kLayers = 2, kHeads = 4, kGroups = 2, kWidth = 24, kFfn = 40, kVocab = 37, kSeq = 19;
constexpr Size kHead = kWidth / kHeads;

// `more` holds further fields, such as R"("window":5,)".
std::string model_json(const char* family, Size groups, bool tied, const char* more = "") {
  return std::string(R"({"family":")") + family + R"(","layers":2,"heads":4,"kv_heads":)" + std::to_string(groups) +
         R"(,"width":24,"ffn":40,"vocab":37,"max_seq":19,"norm_eps":0.0001,"rope_base":5000.0,)" + more +
         R"("tie_embeddings":)" + (tied ? "true" : "false") + R"(,"dropout":0.0})";
}

HfCase gpt2(const char* name, bool tied) {
  HfCase item{name, model_json("gpt2", kHeads, tied), {{"embedding.wte.weight", {kVocab, kWidth}}}};
  const auto add = [&](const std::string& parameter, Shape shape) { item.parameters.push_back({parameter, shape}); };
  add("embedding.wpe.weight", {kSeq, kWidth});
  for (Size i = 0; i < kLayers; ++i) {
    const std::string block = "blocks." + std::to_string(i) + ".";
    add(block + "norm1.weight", {kWidth});
    add(block + "norm1.bias", {kWidth});
    add(block + "attention.qkv.weight", {3 * kWidth, kWidth});
    add(block + "attention.qkv.bias", {3 * kWidth});
    add(block + "attention.proj.weight", {kWidth, kWidth});
    add(block + "attention.proj.bias", {kWidth});
    add(block + "norm2.weight", {kWidth});
    add(block + "norm2.bias", {kWidth});
    add(block + "ffn.up.weight", {kFfn, kWidth});
    add(block + "ffn.up.bias", {kFfn});
    add(block + "ffn.down.weight", {kWidth, kFfn});
    add(block + "ffn.down.bias", {kWidth});
  }
  add("head.norm.weight", {kWidth});
  add("head.norm.bias", {kWidth});
  if (!tied) add("head.lm.weight", {kVocab, kWidth});
  return item;
}

// Heads have `head` channels. `qk_norm` adds norms of queries and keys, `qkv_bias` biases.
HfCase llama(const char* name, bool tied, const std::string& model, Size head = kHead, bool qk_norm = false,
             bool qkv_bias = false) {
  HfCase item{name, model, {{"embedding.wte.weight", {kVocab, kWidth}}}};
  const auto add = [&](const std::string& parameter, Shape shape) { item.parameters.push_back({parameter, shape}); };
  for (Size i = 0; i < kLayers; ++i) {
    const std::string block = "blocks." + std::to_string(i) + ".";
    add(block + "norm1.weight", {kWidth});
    add(block + "attention.qkv.weight", {(kHeads + 2 * kGroups) * head, kWidth});
    if (qkv_bias) add(block + "attention.qkv.bias", {(kHeads + 2 * kGroups) * head});
    add(block + "attention.proj.weight", {kWidth, kHeads * head});
    for (const char* const norm : {"q_norm", "k_norm"}) {
      if (qk_norm) add(block + "attention." + norm + ".weight", {head});
    }
    add(block + "norm2.weight", {kWidth});
    add(block + "ffn.gate_up.weight", {2 * kFfn, kWidth});
    add(block + "ffn.down.weight", {kWidth, kFfn});
  }
  add("head.norm.weight", {kWidth});
  if (!tied) add("head.lm.weight", {kVocab, kWidth});
  return item;
}

}  // namespace

std::vector<HfCase> hf_cases() {
  return {gpt2("gpt2-tied", true),
          gpt2("gpt2-untied", false),
          llama("llama-untied", false, model_json("llama", kGroups, false)),
          llama("llama-tied", true, model_json("llama", kGroups, true)),
          llama("mistral-window", false, model_json("mistral", kGroups, false, R"("window":5,)")),
          llama("qwen2-bias", false, model_json("qwen2", kGroups, false), kHead, false, true),
          llama("llama-rope3", false, model_json("llama", kGroups, false, R"("rope_scaling":"llama3:8,1,4,8",)")),
          llama("llama-linear", true, model_json("llama", kGroups, true, R"("rope_scaling":"linear:4",)")),
          llama("qwen3-head", true, model_json("qwen3", kGroups, true, R"("head_dim":8,)"), 8, true)};
}

float hf_value(const ParameterInfo& parameter, Size index) {
  const float noise = value_of(parameter.name, kMaster, index);
  const bool norm = std::string_view(parameter.name).find("norm") != std::string_view::npos;
  return (norm && parameter.name.ends_with(".weight") ? 1.0f : 0.0f) + 0.6f * noise;
}

fs::path save_case(const HfCase& item, const fs::path& directory) {
  ShardMap shards{item.parameters, {}, {}};
  for (const ParameterInfo& parameter : item.parameters) {
    const Size n = parameter.shape.elements();
    std::vector<float> values(static_cast<std::size_t>(n));
    for (Size i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = hf_value(parameter, i);
    shards.owned.push_back({parameter.name, kMaster, 0, n, Tensor::from(values, {n})});
  }
  checkpoint::RunState state = state_at(12);
  state.model = item.model;
  return checkpoint::save(directory.string(), shards, state, Group());
}

}  // namespace lt_test
