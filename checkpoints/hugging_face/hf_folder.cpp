// Finds the tensors of a model in a folder's files and reads ranges of our parameters from them.
#include "checkpoints/hugging_face/hf_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "checkpoints/format/files.h"
#include "checkpoints/format/found_instead.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/hugging_face/block_reader.h"
#include "checkpoints/hugging_face/hf_config.h"
#include "io/json_problem.h"
#include "io/presence.h"
#include "io/readable.h"
#include "io/whole_file.h"
#include "libtrain/error.h"
#include "tokenizer/tokenizer_files.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

using Index = nlohmann::json;

constexpr const char *kConfig = "config.json", *kOneFile = "model.safetensors",
                     *kIndex = "model.safetensors.index.json", *kTokenizer = "tokenizer.json";
constexpr Size kMostTextBytes = Size{256} << 20;
// Values that are read and transposed at a time.
constexpr Size kTransposedValues = Size{16} << 20;

// Published files of base models leave this out of the names.
std::string without_prefix(const std::string& name) {
  for (const std::string_view prefix : {"transformer.", "model."}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

// Tensors that transformers derives and does not read: masks and frequencies.
bool is_derived(const std::string& name) {
  for (const char* const end : {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

// Null for text that is no JSON or nests too deeply.
Index json_or_null(const std::string& text) {
  const Index json = io::json_depth(text) > io::kMaxJsonDepth ? Index() : Index::parse(text, nullptr, false);
  return json.is_discarded() ? Index() : json;
}

// The names of the files in the index, each once. They must lie in the folder itself.
std::vector<std::string> files_of_index(const std::string& text) {
  const Index json = json_or_null(text);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object()) {
    throw DataError("checkpoint", fmt::format("{}: expected a JSON object, found {}", kIndex, io::json_problem(text)));
  }
  if (map == json.end() || !map->is_object()) {
    throw DataError("checkpoint", fmt::format("{}: weight_map: expected an object, found {}", kIndex,
                                              map == json.end() ? "none" : map->type_name()));
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || fs::path(name).filename() != name || !name.ends_with(".safetensors")) {
      throw DataError("checkpoint", fmt::format("{}: weight_map: {}: expected the name of a safetensors file, found {}",
                                                kIndex, tensor, file.dump()));
    }
    names.insert(name);
  }
  return {names.begin(), names.end()};
}

// Whether a tensor has the shape of another and its values, as bits of f32.
template <class Source>
bool has_values_of(const Source& one, const Source& other) {
  if (!(one.entry->shape == other.entry->shape) || !one.entry->dtype || !is_state_dtype(*one.entry->dtype))
    return false;
  const Size elements = one.entry->shape.elements(), most = block_elements(DType::f32);
  std::vector<std::uint32_t> values(static_cast<std::size_t>(std::min(most, elements))), others = values;
  for (Size at = 0; at < elements; at += most) {
    const Size count = std::min(most, elements - at);
    one.file->read(*one.entry, at, count, DType::f32, values.data());
    other.file->read(*other.entry, at, count, DType::f32, others.data());
    if (std::memcmp(values.data(), others.data(), static_cast<std::size_t>(count) * sizeof values[0]) != 0)
      return false;
  }
  return true;
}

}  // namespace

bool is_hf_folder(const std::string& path) {
  return fs::is_regular_file(io::status_of("checkpoint", fs::path(path) / kConfig));
}

nn::TransformerSpec read_hf_spec(const std::string& path) {
  if (const FoundInstead other = is_hf_folder(path) ? FoundInstead() : found_instead(path); !other.found.empty())
    throw DataError("checkpoint", path + ": expected a Hugging Face folder, found " + other.found, other.hint);
  return within(path, [&] { return parse_hf_config(read_text(fs::path(path) / kConfig, kMostTextBytes)); });
}

HfFolder::HfFolder(const std::string& path) : path_(path), spec_(read_hf_spec(path)), tensors_(hf_tensors(spec_)) {
  for (const HfTensor& tensor : tensors_) by_parameter_[tensor.ours].push_back(&tensor);
  within(path_, [&] {
    try {
      open_files();
      match_tensors();
    } catch (const DataError& e) {
      if (!has_unread_index()) throw;
      throw DataError(e.component(), fmt::format("{}; {} beside it names other files", e.what(), kIndex),
                      fmt::format("{} is read first, as by transformers: remove it if it is out of date", kOneFile));
    }
  });
}

bool HfFolder::has(const std::string& name) const { return io::is_present("checkpoint", path_ / name, name); }

// Whether the folder has an index of other files too, which is not read because the one file is.
bool HfFolder::has_unread_index() const {
  try {
    return has(kOneFile) && has(kIndex) &&
           files_of_index(read_text(path_ / kIndex, kMostTextBytes)) != std::vector<std::string>{kOneFile};
  } catch (const DataError&) {
    return false;
  }
}

void HfFolder::open_files() {
  std::vector<std::string> names{kOneFile};
  // One file comes before an index, as in transformers.
  const bool has_one = has(kOneFile), has_index = !has_one && has(kIndex);
  if (has_index) names = files_of_index(read_text(path_ / kIndex, kMostTextBytes));
  if (!has_one && !has_index) {
    const FoundInstead other = found_instead(path_.string());
    if (!other.found.empty())
      throw DataError("checkpoint", fmt::format("{}: expected weights, found {}", kOneFile, other.found), other.hint);
    throw DataError("checkpoint",
                    fmt::format("{}: expected weights in this file or in those of {}, found neither", kOneFile, kIndex),
                    "weights in other formats (pytorch_model.bin) must be converted to safetensors first");
  }
  for (const std::string& name : names) {
    if (has_index && !has(name)) {
      throw DataError("checkpoint", fmt::format("{}: expected this file, which {} names, found none", name, kIndex),
                      "a download that was cut short? the folder needs all files of its index");
    }
    files_.emplace_back(path_ / name);
  }
}

void HfFolder::match_tensors() {
  std::unordered_map<std::string, Source> found;
  for (const SafetensorsReader& file : files_) {
    for (const SafetensorsEntry& entry : file.tensors()) {
      const auto [there, is_new] = found.try_emplace(entry.name, Source{&file, &entry});
      if (!is_new)
        throw DataError("checkpoint",
                        fmt::format("{}: {}: expected in one file, found in two", file.name(), entry.name));
    }
  }
  for (const HfTensor& tensor : tensors_) {
    auto at = found.find(tensor.theirs);
    if (at == found.end()) at = found.find(without_prefix(tensor.theirs));
    if (at == found.end()) {
      throw DataError("checkpoint",
                      fmt::format("{}: {}: expected shape {}, found no such tensor", files_.front().name(),
                                  tensor.theirs, lt::to_string(tensor.their_shape())));
    }
    const auto& [file, entry] = at->second;
    const auto refuse = [&file = file, &entry = entry](const std::string& expected, const std::string& actual) {
      throw DataError("checkpoint",
                      fmt::format("{}: {}: expected {}, found {}", file->name(), entry->name, expected, actual));
    };
    if (!(entry->shape == tensor.their_shape()))
      refuse("shape " + lt::to_string(tensor.their_shape()), entry->shape_text());
    if (!entry->dtype || !is_state_dtype(*entry->dtype)) refuse("F32, BF16 or F16", entry->dtype_name);
    sources_.emplace(tensor.theirs, at->second);
    found.erase(at);
  }
  for (const auto& [name, source] : found) {
    if (is_derived(name)) continue;
    if (spec_.tied() && name == "lm_head.weight") {
      const HfTensor& embedding = tensors_.front();
      if (has_values_of(source, sources_.at(embedding.theirs))) continue;
      throw DataError("checkpoint",
                      fmt::format("{}: {}: expected the values of {}, as config.json has tied embeddings, found others",
                                  source.file->name(), name, embedding.theirs),
                      "with \"tie_word_embeddings\": false in config.json the model has a head of its own");
    }
    throw DataError("checkpoint", fmt::format("{}: {}: expected no such tensor in a model of {}, found shape {}",
                                              source.file->name(), name, spec_.family, source.entry->shape_text()));
  }
}

std::string HfFolder::tokenizer() const {
  if (!io::is_present("checkpoint", path_ / kTokenizer)) return "";
  return within(path_, [&] { return read_text(path_ / kTokenizer, kMostTextBytes); });
}

std::map<std::string, std::string> HfFolder::tokenizer_files() const {
  return tokenizer::read_tokenizer_files("checkpoint", path_.string());
}

std::vector<ParameterInfo> HfFolder::parameters() const {
  std::vector<ParameterInfo> all;
  for (const HfTensor& tensor : tensors_) {
    if (all.empty() || all.back().name != tensor.ours) all.push_back({tensor.ours, tensor.our_shape});
  }
  return all;
}

void HfFolder::require_parameters(const std::vector<ParameterInfo>& parameters) const {
  for (const ParameterInfo& parameter : parameters) {
    const auto found = by_parameter_.find(parameter.name);
    const Shape* const shape = found == by_parameter_.end() ? nullptr : &found->second.front()->our_shape;
    if (shape != nullptr && *shape == parameter.shape) continue;
    throw DataError(
        "checkpoint",
        fmt::format("{}/{}: parameter {}: expected shape {}, found {}", path_.string(), kConfig, parameter.name,
                    lt::to_string(parameter.shape), shape == nullptr ? "none" : lt::to_string(*shape)),
        "without keys of [model] that give another shape, the model is that of model.from");
  }
  if (parameters.size() == by_parameter_.size()) return;
  throw DataError("checkpoint", fmt::format("{}/{}: expected {} parameters, found {}", path_.string(), kConfig,
                                            parameters.size(), by_parameter_.size()));
}

void HfFolder::Piece::put(Size at, Size count, const void* values, Transfer& transfer) const {
  const Size bytes = count * dtype_bytes(range->values.dtype());
  if (transfer.in_place()) {
    std::memcpy(place_of(at), values, static_cast<std::size_t>(bytes));
    return;
  }
  void* const buffer = transfer.buffer();
  std::memcpy(buffer, values, static_cast<std::size_t>(bytes));
  transfer.send(place_of(at), buffer, bytes);
}

std::byte* HfFolder::Piece::place_of(Size element) const {
  return static_cast<std::byte*>(range->values.data()) + (element - range->begin) * dtype_bytes(range->values.dtype());
}

// In the order of the files' bytes.
std::vector<HfFolder::Piece> HfFolder::pieces_of(const std::vector<StateRange>& ranges) const {
  std::vector<Piece> pieces;
  for (const StateRange& range : ranges) {
    for (const HfTensor* const tensor : by_parameter_.at(range.parameter)) {
      const Size begin = tensor->first(), end = begin + tensor->rows * tensor->columns();
      const Size from = std::max(begin, range.begin), to = std::min(end, range.end);
      if (from < to) pieces.push_back({tensor, sources_.at(tensor->theirs), from, to, &range});
    }
  }
  std::ranges::sort(pieces, {}, [](const Piece& piece) {
    return std::tuple(piece.source.file, piece.source.entry->offset, piece.begin);
  });
  return pieces;
}

void HfFolder::read(const std::vector<StateRange>& ranges, Transfer& transfer) const {
  within(path_, [&] {
    const std::vector<Piece> pieces = pieces_of(ranges);
    std::vector<BlockReader::Block> blocks;
    const auto for_each_block = [](const Piece& piece, auto&& visit) {
      const Size most = block_elements(piece.range->values.dtype());
      for (Size at = piece.begin; at < piece.end; at += most) visit(at, std::min(most, piece.end - at));
    };
    for (const Piece& piece : pieces) {
      if (piece.tensor->transposed) continue;
      for_each_block(piece, [&](Size at, Size count) {
        blocks.push_back({piece.source.file, piece.source.entry, at - piece.tensor->first(), count,
                          piece.range->values.dtype(), transfer.in_place() ? piece.place_of(at) : nullptr});
      });
    }
    BlockReader reader(std::move(blocks));
    for (const Piece& piece : pieces) {
      if (piece.tensor->transposed) {
        read_transposed(piece, transfer);
        continue;
      }
      for_each_block(piece, [&](Size at, Size count) {
        const void* const values = reader.next();
        if (!transfer.in_place()) piece.put(at, count, values, transfer);
      });
    }
    transfer.finish();
  });
}

void HfFolder::read_transposed(const Piece& piece, Transfer& transfer) const {
  const HfTensor& tensor = *piece.tensor;
  const DType dtype = piece.range->values.dtype();
  const Size size = dtype_bytes(dtype), columns = tensor.columns(), first = tensor.first();
  const Size rows_at_once = std::max<Size>(1, kTransposedValues / columns);
  for (Size row = (piece.begin - first) / columns; first + row * columns < piece.end; row += rows_at_once) {
    const Size last = std::min((piece.end - first + columns - 1) / columns, row + rows_at_once);
    const std::vector<std::byte> rows = transposed_rows(tensor, row, last - row, dtype);
    const Size from = std::max(piece.begin, first + row * columns), to = std::min(piece.end, first + last * columns);
    for (Size at = from; at < to; at += block_elements(dtype)) {
      const Size count = std::min(block_elements(dtype), to - at);
      piece.put(at, count, rows.data() + (at - first - row * columns) * size, transfer);
    }
  }
}

// Rows [first, first + count) of ours are columns of theirs: a stretch of each of their rows.
std::vector<std::byte> HfFolder::transposed_rows(const HfTensor& tensor, Size first, Size count, DType dtype) const {
  const auto& [file, entry] = sources_.at(tensor.theirs);
  const Size size = dtype_bytes(dtype), columns = tensor.columns();
  std::vector<std::byte> rows(static_cast<std::size_t>(count * columns * size));
  std::vector<std::byte> stretch(static_cast<std::size_t>(count * size));
  for (Size column = 0; column < columns; ++column) {
    file->read(*entry, column * tensor.rows + first, count, dtype, stretch.data());
    for (Size row = 0; row < count; ++row) {
      std::memcpy(rows.data() + (row * columns + column) * size, stretch.data() + row * size,
                  static_cast<std::size_t>(size));
    }
  }
  return rows;
}

}  // namespace lt::checkpoint
