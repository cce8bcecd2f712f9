// Every number of an exported folder is in its place, and the folder is complete or absent. hf_check.py loads the
// folder with another implementation.
#include "libtrain/checkpoints/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/format/manifest.h"
#include "checkpoints/format/model_json.h"
#include "checkpoints/hf_models.h"
#include "checkpoints/hugging_face/hf_names.h"
#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

struct Exported {
  json header;
  std::string data;

  std::vector<float> values(const std::string& name) const {
    const auto offsets = header.at(name).at("data_offsets").get<std::vector<std::size_t>>();
    std::vector<float> result((offsets.at(1) - offsets.at(0)) / sizeof(float));
    std::memcpy(result.data(), data.data() + offsets[0], result.size() * sizeof(float));
    return result;
  }
};

Exported read_safetensors(const fs::path& file) {
  const std::string bytes = read_text(file);
  std::uint64_t length = 0;
  REQUIRE(bytes.size() > 8);
  std::memcpy(&length, bytes.data(), 8);
  REQUIRE(length % 8 == 0);
  REQUIRE(8 + length <= bytes.size());
  return {json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
}

const ParameterInfo& parameter_of(const HfCase& item, const std::string& name) {
  for (const auto& parameter : item.parameters) {
    if (parameter.name == name) return parameter;
  }
  throw std::runtime_error(name);
}

}  // namespace

TEST_CASE("hf names: the table covers every parameter once, with its shape", "[checkpoints]") {
  for (const HfCase& item : hf_cases()) {
    const auto tensors = hf_tensors(model_from_json(item.model).spec);
    std::map<std::string, Size> rows;
    std::set<std::string> theirs;
    for (const HfTensor& tensor : tensors) {
      CHECK(tensor.our_shape == parameter_of(item, tensor.ours).shape);
      CHECK(tensor.row_begin == rows[tensor.ours]);  // slices follow each other
      rows[tensor.ours] += tensor.rows;
      CHECK(theirs.insert(tensor.theirs).second);
    }
    CHECK(rows.size() == item.parameters.size());
    for (const auto& [name, shape] : item.parameters) CHECK(rows[name] == shape[0]);
  }
}

TEST_CASE("hf export: transposed and sliced tensors hold the numbers of the checkpoint", "[checkpoints]") {
  const TempFolder temp;
  for (const HfCase& item : hf_cases()) {
    const fs::path out = temp.path() / item.name;
    export_hf(save_case(item, temp.path() / (item.name + "-run")), out);
    CHECK(names_in(out) == std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors"});
    const Exported exported = read_safetensors(out / "model.safetensors");
    CHECK(exported.header.at("__metadata__").at("format") == "pt");
    Size elements = 0;
    for (const HfTensor& tensor : hf_tensors(model_from_json(item.model).spec)) {
      const auto& entry = exported.header.at(tensor.theirs);
      CHECK(entry.at("dtype") == "F32");
      const Shape shape = tensor.their_shape();
      CHECK(entry.at("shape").get<std::vector<Size>>() == std::vector<Size>(shape.begin(), shape.end()));
      const auto values = exported.values(tensor.theirs);
      elements += static_cast<Size>(values.size());
      const ParameterInfo& ours = parameter_of(item, tensor.ours);
      Size wrong = 0;
      for (Size r = 0; r < tensor.rows; ++r) {
        for (Size c = 0; c < tensor.columns(); ++c) {
          const Size at = tensor.transposed ? c * tensor.rows + r : r * tensor.columns() + c;
          wrong +=
              values[static_cast<std::size_t>(at)] != hf_value(ours, (tensor.row_begin + r) * tensor.columns() + c);
        }
      }
      CHECK(wrong == 0);
    }
    CHECK(exported.data.size() == static_cast<std::size_t>(elements) * sizeof(float));
  }
  const json gpt2 = json::parse(read_text(temp.path() / "gpt2-tied" / "config.json"));
  CHECK(gpt2.at("n_embd") == 24);
  CHECK(gpt2.at("n_inner") == 40);
  CHECK(gpt2.at("activation_function") == "gelu_new");
  CHECK(gpt2.at("tie_word_embeddings") == true);
  const json llama = json::parse(read_text(temp.path() / "llama-untied" / "config.json"));
  CHECK(llama.at("num_key_value_heads") == 2);
  CHECK(llama.at("rope_theta") == 5000.0);
  CHECK(llama.at("rms_norm_eps").get<float>() == 0.0001f);
  CHECK(llama.at("tie_word_embeddings") == false);
}

TEST_CASE("hf export: Mistral's sliding_window is the model's window, null without one", "[checkpoints]") {
  const TempFolder temp;
  const auto cases = hf_cases();
  const auto found =
      std::find_if(cases.begin(), cases.end(), [](const HfCase& item) { return item.name == "mistral-window"; });
  REQUIRE(found != cases.end());
  HfCase item = *found;
  const auto window = [&](const char* name) {
    export_hf(save_case(item, temp.path() / name), temp.path() / (std::string(name) + "-hf"));
    return json::parse(read_text(temp.path() / (std::string(name) + "-hf") / "config.json")).at("sliding_window");
  };
  CHECK(window("five") == 5);
  item.model.erase(item.model.find(R"("window":5,)"), 11);
  CHECK(window("none").is_null());
}

TEST_CASE("hf export: a damaged checkpoint or a taken name leaves nothing", "[checkpoints]") {
  const TempFolder temp;
  HfCase item = hf_cases().front();
  const fs::path out = temp.path() / "hf";
  const auto left = [&] {
    auto names = names_in(temp.path());
    std::erase(names, "run");
    return names;
  };
  SECTION("a flipped bit in the last tensor") {
    const fs::path folder = save_case(item, temp.path() / "run");
    std::string bytes = read_text(folder / "rank-00000.h5");
    const Manifest manifest = read_manifest(folder);
    for (const DatasetEntry& dataset : manifest.files[0].datasets) {
      if (dataset.parameter == "head.norm.bias") bytes[static_cast<std::size_t>(dataset.offset)] ^= 1;
    }
    write_text(folder / "rank-00000.h5", bytes);
    CHECK_THROWS_WITH(export_hf(folder, out),
                      ContainsSubstring((folder / "rank-00000.h5").string() + ": master/head.norm.bias"));
    CHECK(left().empty());
  }
  SECTION("a parameter of another shape") {
    item.parameters[0].shape[0] += 1;
    CHECK_THROWS_WITH(export_hf(save_case(item, temp.path() / "run"), out),
                      ContainsSubstring("embedding.wte.weight: expected shape [37, 24] by the model, found [38, 24]"));
    CHECK(left().empty());
  }
  SECTION("a parameter too many") {
    item.parameters.push_back({"extra", {3}});
    CHECK_THROWS_WITH(export_hf(save_case(item, temp.path() / "run"), out), ContainsSubstring("parameter extra"));
    CHECK(left().empty());
  }
  SECTION("a model of another family") {
    item.model.replace(item.model.find("gpt2"), 4, "mlp2");
    CHECK_THROWS_WITH(export_hf(save_case(item, temp.path() / "run"), out),
                      ContainsSubstring("manifest.json: model.family: expected one of gpt2, llama"));
    CHECK(left().empty());
  }
  SECTION("a field that the format of the family does not have") {
    item.model.insert(item.model.size() - 1, R"(,"window":7)");
    CHECK_THROWS_WITH(export_hf(save_case(item, temp.path() / "run"), out),
                      ContainsSubstring("manifest.json: model.window: expected its default in Hugging Face's format of "
                                        "gpt2, found 7"));
    CHECK(left().empty());
  }
  SECTION("biases that the format of the family wants, and the model does not have") {
    item.model.insert(item.model.size() - 1, R"(,"qkv_bias":false)");
    CHECK_THROWS_WITH(
        export_hf(save_case(item, temp.path() / "run"), out),
        ContainsSubstring("manifest.json: model.qkv_bias: expected its default in Hugging Face's format"));
    CHECK(left().empty());
  }
  SECTION("a folder with something in it") {
    fs::create_directory(out);
    write_text(out / "mine.txt", "mine");
    CHECK_THROWS_WITH(export_hf(save_case(item, temp.path() / "run"), out),
                      ContainsSubstring("hf: expected a new name or an empty folder"));
    CHECK(read_text(out / "mine.txt") == "mine");
    CHECK(left() == std::vector<std::string>{"hf"});
  }
  SECTION("an empty folder is taken") {
    fs::create_directory(out);
    export_hf(save_case(item, temp.path() / "run"), out);
    CHECK(left() == std::vector<std::string>{"hf"});
    CHECK(names_in(out).size() == 3);
  }
}
