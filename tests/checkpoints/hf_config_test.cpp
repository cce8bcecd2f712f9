// Values in the config.json of a Hugging Face folder that are refused.
#include "checkpoints/hugging_face/hf_config.h"

#include <fmt/format.h>

#include <string>

#include "checkpoints/hf_folders.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;

TEST_CASE("hf import: a config.json that says another model is refused by key", "[checkpoints]") {
  const TempFolder temp;
  const std::vector<HfCase> cases = hf_cases();
  const fs::path hf = exported(case_named(cases, "llama-untied"), temp.path());
  const std::string original = read_text(hf / "config.json");
  const auto with = [&](const char* pointer, const ordered_json& value) {
    write_text(hf / "config.json", original);
    change_config(hf, [&](ordered_json& config) { config[ordered_json::json_pointer(pointer)] = value; });
    return refusal(hf);
  };
  CHECK(with("/use_cache", true) == "no error was thrown");
  CHECK(with("/attention_dropout", 0.5) == "no error was thrown");
  CHECK(with("/some_new_key", nullptr) == "no error was thrown");
  CHECK(with("/hidden_act", nullptr) == "no error was thrown");
  CHECK(with("/pretraining_tp", nullptr) == "no error was thrown");
  CHECK(with("/scale_attn_weights", nullptr) == "config.json: scale_attn_weights: expected true, found null");
  CHECK(with("/is_causal", true) == "no error was thrown");
  CHECK(with("/is_causal", false) == "config.json: is_causal: expected true, found false");
  CHECK(with("/is_causal", nullptr) == "config.json: is_causal: expected true, found null");
  // gpt2-medium has the first two, SmolLM2-135M the third.
  CHECK(with("/predict_special_tokens", true) == "no error was thrown");
  CHECK(with("/n_special", 0) == "no error was thrown");
  CHECK(with("/is_llama_config", true) == "no error was thrown");
  // Tools that tune models leave these.
  const ordered_json harmless = {{"unsloth_fixed", true},
                                 {"unsloth_version", "2025.1.5"},
                                 {"_attn_implementation_autoset", true},
                                 {"_attn_implementation", "flash_attention_2"},
                                 {"max_sequence_length", 64},
                                 {"trl_version", "0.9"},
                                 {"mask_token_id", 5},
                                 {"hidden_dropout", 0.1},
                                 {"gradient_checkpointing", true}};
  for (const auto& [key, value] : harmless.items()) CHECK(with(("/" + key).c_str(), value) == "no error was thrown");
  const ordered_json may_change = {{"attention_multiplier", 0.5},
                                   {"sliding_window", 4},
                                   {"_sliding_window_pattern", 6},
                                   {"quantization_config", {{"bits", 4}}},
                                   {"auto_map", {{"AutoModel", "m.M"}}}};
  for (const auto& [key, value] : may_change.items()) {
    CHECK(with(("/" + key).c_str(), value) ==
          fmt::format("config.json: {}: expected no such key, since it may change the model, found {}", key,
                      value.dump()));
  }
  CHECK(with("/rms_norm_eps", 0) == "config.json: rms_norm_eps: expected a number above 0 and at most 1, found 0");
  CHECK(with("/rms_norm_eps", 1e-50) ==
        "config.json: rms_norm_eps: expected a number that f32 does not round to 0, found 1e-50");
  CHECK(with("/rms_norm_eps", 1e-30) == "no error was thrown");
  CHECK(with("/some_new_key", 3) ==
        "config.json: some_new_key: expected no such key, since it may change the model, found 3");
  CHECK(with("/model_type", "bert") ==
        "config.json: model_type: expected one of gpt2, llama, mistral, qwen2, qwen3, found \"bert\"");
  CHECK(with("/architectures", {"LlamaForSequenceClassification"}) ==
        "config.json: architectures: expected [\"LlamaForCausalLM\"], found [\"LlamaForSequenceClassification\"]");
  CHECK(with("/hidden_act", "relu") == "config.json: hidden_act: expected \"silu\", found \"relu\"");
  CHECK(with("/attention_bias", true) == "config.json: attention_bias: expected false, found true");
  CHECK(with("/hidden_size", "wide") ==
        "config.json: hidden_size: expected an integer of 1 to 268435456, found \"wide\"");
  CHECK(
      with("/num_hidden_layers", 1e9).starts_with("config.json: num_hidden_layers: expected an integer of 1 to 65536"));
  CHECK(with("/num_attention_heads", 5) == "config.json: kv_heads: expected a divisor of heads 5, got 2");
  CHECK(with("/rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}) ==
        "config.json: rope_scaling.rope_type: expected default, linear or llama3, found \"yarn\"");
  CHECK(with("/rope_scaling", {{"type", "linear"}}) ==
        "config.json: rope_scaling.factor: expected a number, found null");
  CHECK(with("/rope_scaling", {{"type", "linear"}, {"factor", 0.5}}) ==
        "config.json: rope_scaling.factor: expected a number of at least 1, found 0.5");
  CHECK(with("/rope_parameters", {{"type", "linear"}, {"factor", 1e300}}) ==
        "config.json: rope_scaling: expected numbers above 0 and at most 1e+12, got \"linear:1e+300\"");
  ordered_json llama3 = {{"rope_type", "llama3"},
                         {"factor", 8},
                         {"low_freq_factor", 4.0},
                         {"high_freq_factor", 4},
                         {"original_max_position_embeddings", 8192}};
  CHECK(with("/rope_parameters", llama3) ==
        "config.json: rope_parameters.low_freq_factor: expected less than high_freq_factor, 4, found 4.0");
  llama3["low_freq_factor"] = 1, llama3["original_max_position_embeddings"] = 0.5;
  CHECK(with("/rope_parameters", llama3) ==
        "config.json: rope_parameters.original_max_position_embeddings: expected a whole number, found 0.5");
  for (const char* const key : {"max_position_embeddings", "hidden_size", "num_hidden_layers", "vocab_size"}) {
    CHECK(with((std::string("/") + key).c_str(), nullptr)
              .starts_with(fmt::format("config.json: {}: expected an integer of 1 to ", key)));
    CHECK(refusal(hf).ends_with(", found none"));
  }
  CHECK(with("/num_key_value_heads", nullptr).starts_with("model.safetensors: "));  // as many as heads
  CHECK(with("/rope_scaling", {{"type", "linear"}, {"factor", 2}, {"beta", 1}}) ==
        "config.json: rope_scaling.beta: expected no such key, found 1");
  CHECK(with("/rope_scaling", {{"rope_type", "default"}, {"type", "linear"}, {"factor", 4}}) ==
        "config.json: rope_scaling.type: expected what rope_type says, found \"linear\"");
  CHECK(with("/rope_parameters/rope_theta", 10000) ==
        "config.json: rope_parameters.rope_theta: expected what rope_theta says, found 10000");
  const ordered_json scaled = {{"rope_type", "linear"}, {"factor", 2}};
  ordered_json with_base = scaled;
  with_base["rope_theta"] = 1e6;
  const auto with_rope = [&](const ordered_json& base, const ordered_json& scaling, const ordered_json& parameters) {
    write_text(hf / "config.json", original);
    change_config(hf, [&](ordered_json& config) {
      config["rope_theta"] = base, config["rope_scaling"] = scaling, config["rope_parameters"] = parameters;
    });
    return refusal(hf);
  };
  CHECK(with_rope(1e4, scaled, with_base) ==
        "config.json: rope_parameters.rope_theta: expected what rope_theta says, found 1000000.0");
  CHECK(with_rope(nullptr, scaled, with_base) ==
        "config.json: rope_parameters.rope_theta: expected 10000, as transformers assumes where rope_scaling has none, "
        "found 1000000.0");
  CHECK(with_rope(1e4, with_base, scaled) ==
        "config.json: rope_scaling.rope_theta: expected what rope_theta says, found 1000000.0");
  ordered_json with_other = scaled;
  with_other["rope_theta"] = 5000;
  CHECK(with_rope(nullptr, with_other, with_base) ==
        "config.json: rope_parameters.rope_theta: expected what rope_scaling.rope_theta says, found 1000000.0");
  CHECK(with_rope(1e6, with_base, with_base) == "no error was thrown");
  CHECK(with_rope(nullptr, with_base, scaled) == "no error was thrown");
  CHECK(read_hf_spec(hf.string()).rope_base == 1e6);
  CHECK(with_rope(nullptr, nullptr, with_base) == "no error was thrown");
  CHECK(read_hf_spec(hf.string()).rope_base == 1e6);
  with_other["rope_theta"] = 10000;
  CHECK(with_rope(nullptr, scaled, with_other) == "no error was thrown");
  CHECK(with("/layer_types", {"full_attention", "sliding_attention"}) ==
        "config.json: layer_types: expected \"full_attention\" for every layer, found \"sliding_attention\"");
  CHECK(with("/layer_types", {"full_attention"}) ==
        "config.json: layer_types: expected 2 entries, one for each layer, found 1");
  CHECK(with("/layer_types", {"full_attention", "full_attention"}) == "no error was thrown");
  CHECK(with("/layer_types", ordered_json::array()) == "no error was thrown");
  CHECK(with("/pretraining_tp", 2) == "config.json: pretraining_tp: expected 1, found 2");
  CHECK(with("/quantization_config", {{"bits", 4}})
            .starts_with("config.json: quantization_config: expected no such key"));
  write_text(hf / "config.json", "{");
  CHECK(refusal(hf) ==
        "config.json: expected a JSON object, found broken JSON at line 1, column 2: syntax error while parsing object "
        "key - unexpected end of input; expected string literal");
  write_text(hf / "config.json", "[]");
  CHECK(refusal(hf) == "config.json: expected a JSON object, found array");
  write_text(hf / "config.json", std::string(200000, ' '));
  CHECK(refusal(hf) == "config.json: expected at most 131072 bytes, found 200000");
  CHECK(parse_hf_config(original).rope_base == 5000);
}

TEST_CASE("hf import: Mistral's sliding_window is null where there is none", "[checkpoints]") {
  const TempFolder temp;
  const std::vector<HfCase> cases = hf_cases();
  const fs::path hf = exported(case_named(cases, "mistral-window"), temp.path());
  const auto with_window = [&](const ordered_json& window) {
    change_config(hf, [&](ordered_json& config) { config["sliding_window"] = window; });
    return refusal(hf);
  };
  CHECK(with_window(0) == "config.json: sliding_window: expected an integer of 1 to 268435456, found 0");
  CHECK(with_window(false) == "config.json: sliding_window: expected an integer of 1 to 268435456, found false");
  CHECK(with_window(7) == "no error was thrown");
  CHECK(read_hf_spec(hf.string()).window == 7);
  CHECK(with_window(nullptr) == "no error was thrown");
  CHECK(read_hf_spec(hf.string()).window == 0);
}
