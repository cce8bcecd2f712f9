// Exports to the Hugging Face format, with one tensor in memory at a time.
#include "libtrain/checkpoints/checkpoint.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>

#include "files.h"
#include "hf_names.h"
#include "layout.h"
#include "manifest.h"
#include "model_json.h"
#include "nn/model_family.h"
#include "nn/spec_fields.h"
#include "read_ranges.h"
#include "safetensors.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

// Entries of every family's config.json. Special tokens are null, because those that transformers assumes by default
// lie outside a small vocabulary.
constexpr nn::HfEntry kCommon[] = {
    {"vocab_size", "vocab", nullptr},        {"tie_word_embeddings", "tie_embeddings", nullptr},
    {"bos_token_id", nullptr, "null"},       {"eos_token_id", nullptr, "null"},
    {"torch_dtype", nullptr, "\"float32\""},
};

// The entry's constant, or the model's field. An integer field of 0 becomes null, such as Mistral's sliding_window
// without a window.
Json value_of(const Json& model, const nn::HfEntry& entry) {
  if (entry.field == nullptr) return Json::parse(entry.constant);
  const Json value = model.at(entry.field);
  return value.is_number_integer() && value == 0 ? Json() : value;
}

void put(Json& config, std::string_view key, Json value) {
  const std::size_t dot = key.find('.');
  Json& at = config[std::string(key.substr(0, dot))];
  if (dot == std::string_view::npos) {
    at = std::move(value);
  } else {
    put(at, key.substr(dot + 1), std::move(value));
  }
}

Json config_of(const nn::TransformerSpec& model) {
  const nn::HfFormat& format = nn::find_family(model.family).hf;
  const Json fields = all_fields(model);
  Json config = {{"architectures", {format.architecture}}, {"model_type", format.model_type}};
  for (const auto& entries : {format.config, format.more_config, std::span<const nn::HfEntry>(kCommon)}) {
    for (const nn::HfEntry& entry : entries) put(config, entry.key, value_of(fields, entry));
  }
  return config;
}

// Throws if the format cannot express the model: a field that it lacks must have the family's default. Dropout matters
// in training only.
void require_expressible(const nn::TransformerSpec& model) {
  const nn::ModelFamily& family = nn::find_family(model.family);
  const nn::HfFormat& format = family.hf;
  std::set<std::string_view> known{"family", "dropout"};
  for (const auto& entries : {format.config, format.more_config, std::span<const nn::HfEntry>(kCommon)}) {
    for (const nn::HfEntry& entry : entries) known.insert(entry.field == nullptr ? "" : entry.field);
  }
  for (const nn::SpecField& field : nn::spec_fields()) {
    const bool unused = field.name == "rope_base" && !family.rotary;
    if (known.contains(field.name) || unused || nn::is_default(model, field)) continue;
    throw DataError(
        "checkpoint",
        fmt::format("manifest.json: model.{}: expected its default in Hugging Face's format of {}, found {}",
                    field.name, model.family, all_fields(model)[std::string(field.name)].dump()));
  }
}

// Throws unless the table and the checkpoint agree on names and shapes, and the table covers every parameter.
void check_parameters(const Manifest& manifest, const std::vector<HfTensor>& tensors) {
  std::unordered_map<std::string, Shape> saved;
  for (const auto& [name, shape] : manifest.parameters) saved.emplace(name, shape);
  std::unordered_map<std::string, Size> rows_used;
  for (const HfTensor& tensor : tensors) {
    const auto found = saved.find(tensor.ours);
    if (found == saved.end() || !(found->second == tensor.our_shape)) {
      throw DataError("checkpoint", fmt::format("manifest.json: parameter {}: expected shape {} by the model, found {}",
                                                tensor.ours, lt::to_string(tensor.our_shape),
                                                found == saved.end() ? "none" : lt::to_string(found->second)));
    }
    rows_used[tensor.ours] += tensor.rows;
  }
  for (const auto& [name, shape] : manifest.parameters) {
    if (rows_used.contains(name) && rows_used[name] == shape[0]) continue;
    throw DataError("checkpoint", fmt::format("manifest.json: parameter {}: expected in the name table, found none of "
                                              "that name",
                                              name));
  }
}

// out[c, r] = in[r, c].
std::vector<float> transpose(const std::vector<float>& in, Size rows, Size columns) {
  std::vector<float> out(in.size());
  for (Size r = 0; r < rows; ++r) {
    for (Size c = 0; c < columns; ++c)
      out[static_cast<std::size_t>(c * rows + r)] = in[static_cast<std::size_t>(r * columns + c)];
  }
  return out;
}

void write_tensors(const fs::path& file, const fs::path& step_directory, const Manifest& manifest,
                   const std::vector<HfTensor>& tensors, const std::unordered_map<std::string, std::string>& kinds) {
  std::vector<ParameterInfo> announced;
  for (const HfTensor& tensor : tensors) announced.push_back({tensor.theirs, tensor.their_shape()});
  SafetensorsWriter writer(file, announced);
  for (const HfTensor& tensor : tensors) {
    const Size columns = tensor.columns(), begin = tensor.row_begin * columns, count = tensor.rows * columns;
    std::vector<float> values(static_cast<std::size_t>(count));
    within(step_directory, [&] {
      Transfer on_host;
      read_ranges(step_directory, manifest, {{tensor.ours, kinds.at(tensor.ours), begin, begin + count, values.data()}},
                  on_host);
    });
    writer.write(tensor.transposed ? transpose(values, tensor.rows, columns) : values);
  }
  writer.finish();
}

// In Hugging Face's tokenizer.json, "model" is an object with a type.
bool is_hf_tokenizer(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  return json.is_object() && json.contains("model") && json["model"].is_object() && json["model"].contains("type");
}

}  // namespace

void export_hf(const std::string& step_directory, const std::string& out_directory, const std::string& weights) {
  fs::path out = fs::absolute(out_directory).lexically_normal();
  if (out.filename().empty()) out = out.parent_path();
  within(out.parent_path(), [&] {
    if (fs::symlink_status(out).type() != fs::file_type::not_found && !(fs::is_directory(out) && fs::is_empty(out))) {
      throw DataError("checkpoint",
                      fmt::format("{}: expected a new name or an empty folder, found a {}", out.filename().string(),
                                  fs::is_directory(out) ? "folder that holds files" : "file"),
                      "choose another --out, or remove its contents");
    }
  });
  const fs::path step = fs::absolute(step_directory);  // absolute, so within(temporary) below keeps it in messages
  fs::path temporary = out;
  temporary += ".tmp-" + draw_run_id();
  try {
    const auto [manifest, kinds, tensors, model] = within(step, [&] {
      Manifest read = read_manifest(step);
      auto kinds_of_weights = weight_kinds(read, weights);
      const nn::TransformerSpec info = model_from_json(read.state.model).spec;
      require_expressible(info);
      std::vector<HfTensor> table = hf_tensors(info);
      check_parameters(read, table);
      return std::tuple(std::move(read), std::move(kinds_of_weights), std::move(table), info);
    });
    within(temporary, [&] {
      make_folders_durably(temporary);
      write_durably(temporary / "config.json", config_of(model).dump(2) + "\n");
      if (is_hf_tokenizer(manifest.state.tokenizer)) {
        write_durably(temporary / "tokenizer.json", manifest.state.tokenizer);
      }
      write_tensors(temporary / "model.safetensors", step, manifest, tensors, kinds);
      sync_folder(temporary);
      rename_durably(temporary, out);
    });
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
}

}  // namespace lt::checkpoint
