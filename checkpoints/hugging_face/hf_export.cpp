// Exports to the Hugging Face format, with one tensor in memory at a time.
#include "libtrain/checkpoints/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoints/format/files.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/format/load.h"
#include "checkpoints/format/manifest.h"
#include "checkpoints/format/model_json.h"
#include "checkpoints/format/read_ranges.h"
#include "checkpoints/hugging_face/base_weights.h"
#include "checkpoints/hugging_face/hf_adapters.h"
#include "checkpoints/hugging_face/hf_config.h"
#include "checkpoints/hugging_face/hf_names.h"
#include "checkpoints/hugging_face/safetensors.h"
#include "io/file_name.h"
#include "libtrain/tokenizer/tokenizer.h"
#include "nn/lora.h"
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

// Throws unless the checkpoint has the adapters of the model and nothing else.
void check_adapters(const Manifest& manifest, const nn::TransformerSpec& model) {
  if (model.layers > static_cast<Size>(manifest.parameters.size())) {
    throw DataError("checkpoint",
                    fmt::format("manifest.json: model.layers: expected at most as many as parameters, {}, "
                                "found {}",
                                manifest.parameters.size(), model.layers));
  }
  std::vector<ParameterInfo> adapters;
  const auto whole = nn::make_transformer(model);
  for (const auto& [name, parameter] : whole->all_parameters()) {
    if (nn::is_adapter(name)) adapters.push_back({name, parameter->shape()});
  }
  require_parameters(manifest, adapters);
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
  nn::TransformerSpec model;
  std::optional<BaseWeights> base;  // if the model has adapters

  AdapterSource adapters() const { return {step, manifest, kinds, model.lora}; }
};

// `with_base`: opens the base of adapters.
Exported read_exported(const std::string& step_directory, const HfExportOptions& options, bool with_base) {
  const fs::path step = fs::absolute(step_directory);  // so that within() of the folder to write keeps it in messages
  return within(step, [&] {
    Exported read{step, read_manifest(step), {}, {}, {}, {}};
    const RunState& state = read.manifest.state;
    read.kinds = weight_kinds(read.manifest, options.weights);
    read.model = model_from_json(state.model).spec;
    read.tensors = hf_tensors(read.model);
    if (with_base) read.base = base_of(state, step, read.model, options.base);
    if (nn::has_adapters(read.model)) {
      check_adapters(read.manifest, read.model);
    } else {
      require_expressible(read.model);  // a field may add parameters to the name table's, or take some away
      check_parameters(read.manifest, read.tensors);
    }
    return read;
  });
}

// The path of a base that PEFT can load; empty for a checkpoint, and for initial weights.
std::string name_of_base(const Exported& from, const std::string& given) {
  std::string base = from.manifest.state.base;
  try {
    base = find_base(from.manifest.state, from.step, given);
  } catch (const DataError&) {  // the export does not need it
  }
  const bool is_checkpoint =
      parse_step(fs::path(base).filename().string()) || fs::exists(fs::path(base) / kManifestName);
  return base.empty() || is_checkpoint ? "" : fs::absolute(base).lexically_normal().string();
}

std::vector<float> read_values(const Exported& from, const HfTensor& tensor) {
  const Size columns = tensor.columns(), begin = tensor.row_begin * columns, count = tensor.rows * columns;
  std::vector<float> values(static_cast<std::size_t>(count));
  Transfer on_host;
  if (!from.base) {
    within(from.step, [&] {
      read_ranges(from.step, from.manifest,
                  {{tensor.ours, from.kinds.at(tensor.ours), begin, begin + count, values.data()}}, on_host);
    });
    return values;
  }
  const Tensor base = Tensor::empty({count}, DType::f32);
  from.base->read({{tensor.ours, kMaster, begin, begin + count, base}}, on_host);
  std::copy_n(base.data<float>(), count, values.begin());
  if (tensor.is_adapted()) add_adapter(from.adapters(), tensor, values);
  return values;
}

// Calls `count` with the bytes of each tensor that it has written.
void write_tensors(const fs::path& file, const Exported& from, const std::vector<HfTensor>& tensors, DType dtype,
                   const std::function<void(Size)>& count) {
  std::vector<ParameterInfo> announced;
  for (const HfTensor& tensor : tensors) announced.push_back({tensor.theirs, tensor.their_shape()});
  SafetensorsWriter writer(file, announced, dtype);
  for (const HfTensor& tensor : tensors) {
    const std::vector<float> values = read_values(from, tensor);
    writer.write(tensor.transposed ? transpose(values, tensor.rows, tensor.columns()) : values);
    count(bytes_of(tensor, dtype));
  }
  writer.finish();
}

// The tokens that end a text or a turn, where the tokenizer has them: generation stops there.
std::string generation_config_text(const std::string& tokenizer) {
  Json config = {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}, {"pad_token_id", nullptr}};
  if (tokenizer::is_hugging_face_tokenizer(tokenizer)) {
    const auto supported = supported_tokenizer(tokenizer, "manifest.json: tokenizer");
    std::vector<std::uint32_t> ends;
    if (supported != nullptr && supported->end_of_text()) ends.push_back(*supported->end_of_text());
    for (const char* const turn : {"<|im_end|>", "<|eot_id|>"}) {
      const auto id = supported != nullptr ? supported->added_token(turn) : std::nullopt;
      if (id && std::ranges::find(ends, *id) == ends.end()) ends.push_back(*id);
    }
    if (ends.size() == 1) config["eos_token_id"] = ends[0];
    if (ends.size() > 1) config["eos_token_id"] = ends;
  }
  return config.dump(2) + "\n";
}

// Writes `out_directory` under another name, then renames it.
template <class Body>
void write_folder(const std::string& out_directory, Body&& body) {
  fs::path out = fs::absolute(out_directory).lexically_normal();
  if (out.filename().empty()) out = out.parent_path();
  require_new_or_empty(out);
  const fs::path temporary = io::with_suffix(out, ".tmp-" + draw_run_id());
  try {
    body(temporary);
    within(temporary, [&] {
      sync_folder(temporary);
      rename_durably(temporary, out);
    });
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
}

}  // namespace

void export_hf(const std::string& step_directory, const std::string& out_directory, const HfExportOptions& options) {
  write_folder(out_directory, [&](const fs::path& folder) {
    const Exported from = read_exported(step_directory, options, true);
    nn::TransformerSpec merged = from.model;
    merged.lora = {};
    const std::string config = within(from.step, [&] { return hf_config_text(merged, options.dtype); });
    within(folder, [&] {
      make_folders_durably(folder);
      write_durably(folder / "config.json", config);
      const std::string& tokenizer = from.manifest.state.tokenizer;
      write_durably(folder / "generation_config.json", generation_config_text(tokenizer));
      if (tokenizer::is_hugging_face_tokenizer(tokenizer)) write_durably(folder / "tokenizer.json", tokenizer);
      for (const auto& [path, bytes] : from.manifest.state.tokenizer_files) {
        if (fs::path(path).has_parent_path()) make_folders_durably((folder / path).parent_path());
        write_durably(folder / path, bytes);
      }
      const auto files = files_of(from.tensors, options.dtype, options.file_bytes);
      const std::vector<std::string> names = names_of(files);
      if (files.size() > 1) {
        write_durably(folder / "model.safetensors.index.json", index_text(files, names, options.dtype));
      }
      Size total = 0, done = 0;
      for (const HfTensor& tensor : from.tensors) total += bytes_of(tensor, options.dtype);
      const auto count = [&](Size bytes) {
        if (options.on_progress) options.on_progress(done += bytes, total);
      };
      count(0);
      for (std::size_t i = 0; i < files.size(); ++i) {
        write_tensors(folder / names[i], from, files[i], options.dtype, count);
      }
    });
  });
}

void export_adapters(const std::string& step_directory, const std::string& out_directory,
                     const HfExportOptions& options) {
  write_folder(out_directory, [&](const fs::path& folder) {
    const Exported from = read_exported(step_directory, options, !options.base.empty());
    if (!nn::has_adapters(from.model)) {
      throw DataError("checkpoint", from.step.string() + "/manifest.json: model.lora: expected adapters, found none",
                      "without --adapter the export writes the whole model");
    }
    within(folder, [&] {
      make_folders_durably(folder);
      write_adapters(from.adapters(), from.tensors, folder, options.dtype, name_of_base(from, options.base));
    });
  });
}

}  // namespace lt::checkpoint
