// Exports to the Hugging Face format, with one tensor in memory at a time.
#include "libtrain/checkpoints/checkpoint.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "files.h"
#include "hf_config.h"
#include "hf_names.h"
#include "layout.h"
#include "manifest.h"
#include "model_json.h"
#include "read_ranges.h"
#include "safetensors.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

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
    const auto [manifest, kinds, tensors, config] = within(step, [&] {
      Manifest read = read_manifest(step);
      auto kinds_of_weights = weight_kinds(read, weights);
      const nn::TransformerSpec info = model_from_json(read.state.model).spec;
      std::string config = hf_config_text(info);
      std::vector<HfTensor> table = hf_tensors(info);
      check_parameters(read, table);
      return std::tuple(std::move(read), std::move(kinds_of_weights), std::move(table), std::move(config));
    });
    within(temporary, [&] {
      make_folders_durably(temporary);
      write_durably(temporary / "config.json", config);
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
