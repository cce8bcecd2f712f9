// Reading folders in Hugging Face's format range by range, and weights that are refused. hf_config_test.cpp tests
// config.json. tests/parity/hf_import.py reads folders that transformers wrote.
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "checkpoints/format/model_json.h"
#include "checkpoints/format/transfer.h"
#include "checkpoints/hf_folders.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;

TEST_CASE("hf import: any range of any parameter has the numbers that were exported", "[checkpoints]") {
  const TempFolder temp;
  for (const HfCase& item : hf_cases()) {
    const fs::path hf = exported(item, temp.path() / item.name);
    const HfFolder folder(hf.string());
    INFO(item.name);
    nn::TransformerSpec expected_spec = model_from_json(item.model).spec;
    if (expected_spec.family == "gpt2") expected_spec.rope_base = folder.spec().rope_base;  // unused, and not exported
    CHECK(model_to_json(folder.spec(), 0) == model_to_json(expected_spec, 0));
    folder.require_parameters(item.parameters);
    for (const ParameterInfo& parameter : item.parameters) {
      const Size n = parameter.shape.elements();
      for (const DType dtype : {DType::f32, DType::bf16}) {
        for (const auto& [begin, end] : {std::pair<Size, Size>{0, n}, {n / 3, n / 3 + 1}, {n / 5 + 1, n - n / 7}}) {
          const Tensor values = Tensor::empty({end - begin}, dtype);
          Transfer transfer;
          folder.read({{parameter.name, kMaster, begin, end, values}}, transfer);
          const Tensor expected = Tensor::empty({end - begin}, dtype);
          std::vector<float> numbers;
          for (Size i = begin; i < end; ++i) numbers.push_back(hf_value(parameter, i));
          copy(expected, Tensor::from(numbers, {end - begin}));
          CHECK(std::memcmp(values.data(), expected.data(), static_cast<std::size_t>(values.bytes())) == 0);
        }
      }
    }
  }
}

TEST_CASE("hf export: bf16 in several files, which the import reads by their index", "[checkpoints]") {
  const TempFolder temp;
  for (const HfCase& item : hf_cases()) {
    const fs::path step = save_case(item, temp.path() / item.name / "run"), hf = temp.path() / item.name / "hf";
    Reports reports;
    export_hf(step.string(), hf.string(),
              {.dtype = DType::bf16, .file_bytes = 4000, .on_progress = reports.receiver()});
    const auto index = nlohmann::json::parse(read_text(hf / "model.safetensors.index.json"));
    Size elements = 0;
    for (const ParameterInfo& parameter : item.parameters) elements += parameter.shape.elements();
    INFO(item.name);
    CHECK(index.at("metadata").at("total_size") == 2 * elements);
    CHECK(reports.grow_to(2 * elements));
    CHECK(nlohmann::json::parse(read_text(hf / "config.json")).at("torch_dtype") == "bfloat16");
    const HfFolder folder(hf.string());
    for (const ParameterInfo& parameter : item.parameters) {
      const Size n = parameter.shape.elements();
      const Tensor values = Tensor::empty({n}, DType::bf16), expected = Tensor::empty({n}, DType::bf16);
      Transfer transfer;
      folder.read({{parameter.name, kMaster, 0, n, values}}, transfer);
      std::vector<float> numbers;
      for (Size i = 0; i < n; ++i) numbers.push_back(hf_value(parameter, i));
      copy(expected, Tensor::from(numbers, {n}));
      CHECK(std::memcmp(values.data(), expected.data(), static_cast<std::size_t>(values.bytes())) == 0);
    }
  }
}

TEST_CASE("hf import: a checkpoint of several files, with every weight and without states", "[checkpoints]") {
  const TempFolder temp;
  for (const HfCase& item : hf_cases()) {
    const fs::path hf = exported(item, temp.path() / item.name), out = temp.path() / item.name / "imported";
    const std::string tokenizer =
        R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"added_tokens":[{"id":1,"content":"</s>"}]})";
    write_text(hf / "tokenizer.json", tokenizer);
    write_text(hf / "tokenizer_config.json", "{\"tokenizer_class\": \"GPT2Tokenizer\"}\n");
    write_text(hf / "tokenizer.model", std::string("\x0a\xff\x00", 3));
    fs::create_directory(hf / "additional_chat_templates");
    write_text(hf / "additional_chat_templates/tool.jinja", "{{ tools }}");
    Reports reports;
    const std::string step = import_hf(hf.string(), out.string(), 1000, nullptr, reports.receiver());
    INFO(item.name);
    CHECK(step == (out / "step-00000000").string());
    CHECK(verify(out.string()).empty());
    const RunState state = read_state(step);
    CHECK((state.step == 0 && state.tokenizer == tokenizer));
    Size elements = 0;
    for (const ParameterInfo& parameter : item.parameters) {
      const std::vector<float> values = read_tensor(step, parameter.name);
      Size different = 0;
      for (Size i = 0; i < parameter.shape.elements(); ++i) {
        different += values[static_cast<std::size_t>(i)] == hf_value(parameter, i) ? 0 : 1;
      }
      CHECK(different == 0);
      elements += parameter.shape.elements();
    }
    CHECK(read_world_size(step) == (elements + 999) / 1000);
    CHECK(reports.grow_to(4 * elements));
    CHECK(static_cast<Size>(reports.done.size()) == 1 + 2 * read_world_size(step));  // each file is read, then written
    CHECK(message_of<DataError>([&] {
            import_hf(hf.string(), out.string());
          }).ends_with("expected a new name or an empty folder, found a folder that holds files"));
    const fs::path again = temp.path() / item.name / "again";
    export_hf(step, again.string());
    for (const char* const name : {"tokenizer.json", "tokenizer_config.json", "tokenizer.model",
                                   "additional_chat_templates/tool.jinja", "config.json"}) {
      CHECK(read_text(again / name) == read_text(hf / name));
    }
    CHECK(nlohmann::json::parse(read_text(again / "generation_config.json")).at("eos_token_id") == 1);
    CHECK(read_text(again / "model.safetensors") == read_text(hf / "model.safetensors"));
    fs::remove(hf / "model.safetensors");
    const fs::path broken = temp.path() / item.name / "broken";
    CHECK_THROWS_AS(import_hf(hf.string(), broken.string()), DataError);
    CHECK_FALSE(fs::exists(broken));
  }
}

TEST_CASE("hf import: weights that are not the model's are refused by file and tensor", "[checkpoints]") {
  const TempFolder temp;
  const std::vector<HfCase> cases = hf_cases();
  const fs::path hf = exported(case_named(cases, "llama-untied"), temp.path());
  const std::string original = read_text(hf / "model.safetensors");
  const auto with_weights = [&](const std::function<void(Weights&)>& change) {
    write_text(hf / "model.safetensors", original);
    change_weights(hf, change);
    return refusal(hf);
  };
  const auto with = [&](const Change& change) {
    return with_weights([&](Weights& weights) { change(weights.header); });
  };
  const std::string norm = "model.norm.weight";
  CHECK(with([&](auto& header) { header["other"] = header[norm], header.erase(norm); }) ==
        "model.safetensors: model.norm.weight: expected shape [24], found no such tensor");
  CHECK(with_weights([&](auto& weights) { weights.copy(norm, "model.layers.7.mlp.up_proj.weight"); }) ==
        "model.safetensors: model.layers.7.mlp.up_proj.weight: expected no such tensor in a model of llama, found "
        "shape [24]");
  CHECK(with_weights([&](auto& weights) { weights.copy(norm, "model.layers.0.self_attn.rotary_emb.inv_freq"); }) ==
        "no error was thrown");
  CHECK(with([&](auto& header) { header["norm.weight"] = header[norm], header.erase(norm); }) == "no error was thrown");
  CHECK(with([&](auto& header) {
          header[norm]["shape"] = {4, 6};
        }) == "model.safetensors: model.norm.weight: expected shape [24], found [4, 6]");
  CHECK(with([&](auto& header) { header[norm]["shape"] = {1, 1, 1, 1, 1, 1, 24}; }) ==
        "model.safetensors: model.norm.weight: expected shape [24], found [1,1,1,1,1,1,24]");
  CHECK(with([&](auto& header) { header[norm]["dtype"] = "I32"; }) ==
        "model.safetensors: model.norm.weight: expected F32, BF16 or F16, found I32");
  CHECK(with([&](auto& header) { header[norm]["dtype"] = "Q4"; }) ==
        "model.safetensors: header: model.norm.weight: expected a known dtype, found Q4");
  CHECK(with([&](auto& header) { header[norm]["shape"] = {25}; }) ==
        "model.safetensors: header: model.norm.weight: expected 100 bytes for shape [25] of F32, found 96 bytes");
  CHECK(with([&](auto& header) {
          header[norm]["data_offsets"] = {0, 1 << 30};
        }).starts_with("model.safetensors: expected 10737"));
  CHECK(with([&](auto& header) {
          header[norm]["shape"] = {Size{1} << 40, Size{1} << 40};
        }).starts_with("model.safetensors: header: model.norm.weight: expected an integer of 0 to "));
  // A head of its own beside tied embeddings, and a copy of the embedding.
  const std::string untied = read_text(hf / "config.json");
  change_config(hf, [](ordered_json& config) { config["tie_word_embeddings"] = true; });
  CHECK(with([](auto&) {}) ==
        "model.safetensors: lm_head.weight: expected the values of model.embed_tokens.weight, as config.json has tied "
        "embeddings, found others");
  CHECK(with_weights([](auto& weights) { weights.overwrite("lm_head.weight", "model.embed_tokens.weight"); }) ==
        "no error was thrown");
  write_text(hf / "config.json", untied);
  write_text(hf / "model.safetensors", original.substr(0, original.size() - 4));
  CHECK(refusal(hf) == fmt::format("model.safetensors: expected {} bytes, as its header says, found {} bytes",
                                   original.size(), original.size() - 4));
  write_text(hf / "model.safetensors", original.substr(0, 100));
  CHECK(refusal(hf).ends_with("from byte 8 on, found 100 bytes"));
  write_text(hf / "model.safetensors", std::string(7, '\xff'));
  CHECK(refusal(hf) == "model.safetensors: expected at least 8 bytes, found 7 bytes");
  write_text(hf / "model.safetensors", "version https://git-lfs.github.com/spec/v1\n");
  CHECK(refusal(hf) ==
        "model.safetensors: expected a header of at most 104857600 bytes, found one of 2336927755350992246");
  fs::remove(hf / "model.safetensors");
  write_text(hf / "model.safetensors.index.json", R"({"weight_map": {"a": "../secret.safetensors"}})");
  CHECK(refusal(hf) ==
        "model.safetensors.index.json: weight_map: a: expected the name of a safetensors file, found "
        "\"../secret.safetensors\"");
  write_text(hf / "model.safetensors.index.json", R"({"weight_map": {"a": "part.safetensors"}})");
  CHECK(refusal(hf) == "part.safetensors: expected this file, which model.safetensors.index.json names, found none");
  write_text(hf / "model.safetensors.index.json", "{\n\"weight_map\": {\"a\": }}");
  CHECK(refusal(hf).starts_with(
      "model.safetensors.index.json: expected a JSON object, found broken JSON at line 2, column 21: syntax error"));
  write_text(hf / "model.safetensors.index.json", R"({"weight_map": []})");
  CHECK(refusal(hf) == "model.safetensors.index.json: weight_map: expected an object, found array");
  fs::remove(hf / "model.safetensors.index.json");
  CHECK(refusal(hf) ==
        "model.safetensors: expected weights in this file or in those of model.safetensors.index.json, found neither");
}

TEST_CASE("hf import: a safetensors file whose tensors are not its bytes, each once, is refused", "[checkpoints]") {
  const TempFolder temp;
  const std::vector<HfCase> cases = hf_cases();
  const fs::path hf = exported(case_named(cases, "llama-untied"), temp.path());
  const std::string original = read_text(hf / "model.safetensors");
  const auto with = [&](const std::function<void(Weights&)>& change) {
    write_text(hf / "model.safetensors", original);
    change_weights(hf, change);
    return refusal(hf);
  };
  const std::string norm = "model.norm.weight", other = "model.layers.0.input_layernorm.weight";
  CHECK(with([](auto&) {}) == "no error was thrown");
  CHECK(with([&](auto& weights) {
          weights.header[norm]["data_offsets"] = weights.header[other]["data_offsets"];
        }).ends_with("expected data_offsets from 3648 on, where the tensor before it ends, found 3552 and 3648"));
  CHECK(with([&](auto& weights) { weights.header.erase(other); }) ==
        "model.safetensors: header: model.layers.0.self_attn.q_proj.weight: expected data_offsets from 3552 on, where "
        "the tensor before it ends, found 3648 and 5952");
  CHECK(with([](auto& weights) { weights.header.erase("model.embed_tokens.weight"); }) ==
        "model.safetensors: header: model.layers.0.input_layernorm.weight: expected data_offsets from 0 on, where the "
        "tensor before it ends, found 3552 and 3648");
  const std::string longer = with([](auto& weights) { weights.payload += "more"; });
  const std::uintmax_t bytes = fs::file_size(hf / "model.safetensors");
  CHECK(longer ==
        fmt::format("model.safetensors: expected {} bytes, as its header says, found {} bytes", bytes - 4, bytes));
  // A tensor without values may lie between any two.
  const ordered_json none = {{"dtype", "F32"}, {"shape", {0, 3}}, {"data_offsets", {3552, 3552}}};
  CHECK(with([&](auto& weights) { weights.header["model.layers.0.self_attn.rotary_emb.inv_freq"] = none; }) ==
        "no error was thrown");
  for (const auto& [metadata, found] : std::vector<std::pair<ordered_json, std::string>>{
           {5, "number"}, {{{"format", 5}}, "an object with others"}, {ordered_json::array(), "array"}}) {
    CHECK(with([&metadata = metadata](auto& weights) { weights.header["__metadata__"] = metadata; }) ==
          "model.safetensors: header: __metadata__: expected an object of texts, found " + found);
  }
  CHECK(with([](auto& weights) { weights.header.erase("__metadata__"); }) == "no error was thrown");
  // JSON keeps one of two values of a name.
  const Weights whole = read_weights(hf);
  write_weights(hf, "{\"" + norm + "\":" + whole.header.at(other).dump() + "," + whole.header.dump().substr(1),
                whole.payload);
  CHECK(refusal(hf) == "model.safetensors: header: model.norm.weight: expected each name once, found it twice");
}

TEST_CASE("hf import: beside tied embeddings each value of a head is compared", "[checkpoints]") {
  const TempFolder temp;
  const std::vector<HfCase> cases = hf_cases();
  HfCase item = case_named(cases, "llama-untied");
  constexpr Size kVocab = 50000;  // several blocks
  item.model.replace(item.model.find("\"vocab\":37"), 10, fmt::format("\"vocab\":{}", kVocab));
  item.parameters.front().shape = item.parameters.back().shape = {kVocab, 24};
  const fs::path hf = exported(item, temp.path());
  change_config(hf, [](ordered_json& config) { config["tie_word_embeddings"] = true; });
  change_weights(hf, [](Weights& weights) { weights.overwrite("lm_head.weight", "model.embed_tokens.weight"); });
  CHECK(refusal(hf) == "no error was thrown");
  const std::string copied = read_text(hf / "model.safetensors");
  for (const Size value : {Size{2500}, kVocab * 24 / 2 + 99, kVocab * 24 - 1}) {
    write_text(hf / "model.safetensors", copied);
    change_weights(hf, [&](Weights& weights) {
      weights.payload[weights.first("lm_head.weight") + 4 * static_cast<std::size_t>(value)] ^= 1;
    });
    CHECK(refusal(hf).ends_with("as config.json has tied embeddings, found others"));
  }
}

TEST_CASE("hf import: links to nothing, adapters and caches are named", "[checkpoints]") {
  const TempFolder temp;
  const std::vector<HfCase> cases = hf_cases();
  const fs::path hf = exported(case_named(cases, "llama-untied"), temp.path()), out = temp.path() / "out";
  const auto message = [&] { return message_of<DataError>([&] { import_hf(hf.string(), out.string()); }); };
  const auto link = [](const char* name) {
    return fmt::format("{}: expected a file or folder, found a link to ../gone, which is not there", name);
  };
  const std::string all = read_text(hf / "model.safetensors"), config = read_text(hf / "config.json");
  for (const char* const name :
       {"tokenizer.json", "tokenizer_config.json", "additional_chat_templates", "model.safetensors"}) {
    fs::remove(hf / name);
    fs::create_symlink("../gone", hf / name);
    CHECK(message() == (hf / link(name)).string());
    if (name != std::string("model.safetensors")) fs::remove(hf / name);
  }
  fs::rename(hf / "model.safetensors", hf / "part.safetensors");
  write_text(hf / "model.safetensors.index.json", R"({"weight_map": {"a": "part.safetensors"}})");
  CHECK(message() == (hf / link("part.safetensors")).string());
  fs::remove(hf / "part.safetensors");

  // An older file beside the index of those that were downloaded later.
  write_text(hf / "model.safetensors", all);
  CHECK(refusal(hf) == "no error was thrown");
  change_weights(hf, [](Weights& weights) { weights.header["model.norm.weight"]["shape"] = {4, 6}; });
  CHECK(
      refusal(hf) ==
      "model.safetensors: model.norm.weight: expected shape [24], found [4, 6]; model.safetensors.index.json beside it "
      "names other files");
  write_text(hf / "model.safetensors.index.json", R"({"weight_map": {"a": "model.safetensors"}})");
  CHECK(refusal(hf) == "model.safetensors: model.norm.weight: expected shape [24], found [4, 6]");
  fs::remove(hf / "model.safetensors.index.json");
  fs::remove(hf / "model.safetensors");

  write_text(hf / "adapter_config.json", R"({"peft_type":"LORA","base_model_name_or_path":"org/base"})");
  CHECK(refusal(hf) == "model.safetensors: expected weights, found an adapter of org/base");
  fs::remove(hf / "config.json");
  CHECK(message() == hf.string() + ": expected a Hugging Face folder, found an adapter of org/base");
  write_text(hf / "adapter_config.json", R"({"base_model_name_or_path":null})");
  CHECK(message() == hf.string() + ": expected a Hugging Face folder, found an adapter");
  fs::remove(hf / "adapter_config.json");
  fs::create_directories(hf / "snapshots/abc");
  fs::create_directories(hf / "snapshots/abd");
  CHECK(message() ==
        fmt::format("{0}: expected a Hugging Face folder, found the root of a Hugging Face cache, with the "
                    "model in {0}/snapshots/abc or {0}/snapshots/abd",
                    hf.string()));
  fs::create_symlink("../gone", hf / "config.json");
  CHECK(message() == (hf / link("config.json")).string());
  CHECK_FALSE(fs::exists(out));
}
