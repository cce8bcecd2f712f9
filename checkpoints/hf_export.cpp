// Exports to the Hugging Face format, with one tensor in memory at a time.
#include "libtrain/checkpoints/checkpoint.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "files.h"
#include "hf_config.h"
#include "hf_names.h"
#include "layout.h"
#include "libtrain/tokenizer/tokenizer.h"
#include "manifest.h"
#include "model_json.h"
#include "read_ranges.h"
#include "safetensors.h"
#include "tokenizer/tokenizer_json.h"

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

Size bytes_of(const HfTensor& tensor, DType dtype) { return tensor.their_shape().elements() * dtype_bytes(dtype); }

// Shares the tensors out to files of at most `most` bytes, each with at least one, in order.
std::vector<std::vector<HfTensor>> files_of(const std::vector<HfTensor>& tensors, DType dtype, Size most) {
  std::vector<std::vector<HfTensor>> files;
  Size bytes = 0;
  for (const HfTensor& tensor : tensors) {
    const Size size = bytes_of(tensor, dtype);
    if (files.empty() || bytes + size > most) files.emplace_back(), bytes = 0;
    files.back().push_back(tensor), bytes += size;
  }
  return files;
}

// The names of the files, and the index that Hugging Face's readers expect of several.
std::vector<std::string> names_of(const std::vector<std::vector<HfTensor>>& files) {
  if (files.size() == 1) return {"model.safetensors"};
  std::vector<std::string> names;
  for (std::size_t i = 1; i <= files.size(); ++i)
    names.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", i, files.size()));
  return names;
}

std::string index_text(const std::vector<std::vector<HfTensor>>& files, const std::vector<std::string>& names,
                       DType dtype) {
  Json index;
  Size total = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const HfTensor& tensor : files[i]) total += bytes_of(tensor, dtype);
  }
  index["metadata"]["total_size"] = total;
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const HfTensor& tensor : files[i]) index["weight_map"][tensor.theirs] = names[i];
  }
  return index.dump(2) + "\n";
}

// What an export reads.
struct Exported {
  fs::path step;
  Manifest manifest;
  std::unordered_map<std::string, std::string> kinds;  // by parameter
  std::vector<HfTensor> tensors;
  std::string config;
};

void write_tensors(const fs::path& file, const Exported& from, const std::vector<HfTensor>& tensors, DType dtype) {
  std::vector<ParameterInfo> announced;
  for (const HfTensor& tensor : tensors) announced.push_back({tensor.theirs, tensor.their_shape()});
  SafetensorsWriter writer(file, announced, dtype);
  for (const HfTensor& tensor : tensors) {
    const Size columns = tensor.columns(), begin = tensor.row_begin * columns, count = tensor.rows * columns;
    std::vector<float> values(static_cast<std::size_t>(count));
    within(from.step, [&] {
      Transfer on_host;
      read_ranges(from.step, from.manifest,
                  {{tensor.ours, from.kinds.at(tensor.ours), begin, begin + count, values.data()}}, on_host);
    });
    writer.write(tensor.transposed ? transpose(values, tensor.rows, columns) : values);
  }
  writer.finish();
}

// The token that ends a text, where the tokenizer says it: generation stops there.
std::string generation_config_text(const std::string& tokenizer) {
  Json config = {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}, {"pad_token_id", nullptr}};
  if (is_hugging_face_tokenizer(tokenizer)) {
    const auto supported = supported_tokenizer(tokenizer, "manifest.json: tokenizer");
    if (supported != nullptr && supported->end_of_text()) config["eos_token_id"] = *supported->end_of_text();
  }
  return config.dump(2) + "\n";
}

}  // namespace

void export_hf(const std::string& step_directory, const std::string& out_directory, const HfExportOptions& options) {
  fs::path out = fs::absolute(out_directory).lexically_normal();
  if (out.filename().empty()) out = out.parent_path();
  require_new_or_empty(out);
  const fs::path step = fs::absolute(step_directory);  // absolute, so within(temporary) below keeps it in messages
  fs::path temporary = out;
  temporary += ".tmp-" + draw_run_id();
  try {
    const Exported from = within(step, [&] {
      Exported read{step, read_manifest(step), {}, {}, {}};
      read.kinds = weight_kinds(read.manifest, options.weights);
      const nn::TransformerSpec spec = model_from_json(read.manifest.state.model).spec;
      read.config = hf_config_text(spec, options.dtype);
      read.tensors = hf_tensors(spec);
      check_parameters(read.manifest, read.tensors);
      return read;
    });
    within(temporary, [&] {
      make_folders_durably(temporary);
      write_durably(temporary / "config.json", from.config);
      write_durably(temporary / "generation_config.json", generation_config_text(from.manifest.state.tokenizer));
      if (is_hugging_face_tokenizer(from.manifest.state.tokenizer)) {
        write_durably(temporary / "tokenizer.json", from.manifest.state.tokenizer);
      }
      const auto files = files_of(from.tensors, options.dtype, options.file_bytes);
      const std::vector<std::string> names = names_of(files);
      if (files.size() > 1) {
        write_durably(temporary / "model.safetensors.index.json", index_text(files, names, options.dtype));
      }
      for (std::size_t i = 0; i < files.size(); ++i) write_tensors(temporary / names[i], from, files[i], options.dtype);
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
