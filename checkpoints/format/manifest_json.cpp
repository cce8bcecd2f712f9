// Converts the manifest to JSON and back. Every field must be present, except those added later, and have the type
// stated in docs/reference/checkpoint-format.md. An unknown version is refused.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoints/format/manifest.h"
#include "checkpoints/format/run_id.h"
#include "io/base64.h"
#include "io/crc32c.h"
#include "io/json_depth.h"
#include "io/utf8.h"
#include "libtrain/error.h"
#include "tokenizer/tokenizer_files.h"

namespace lt::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "libtrain checkpoint";
constexpr int kVersion = 2;

[[noreturn]] void fail_field(const std::string& key, const std::string& expected, const std::string& found) {
  throw DataError("checkpoint", fmt::format("manifest.json: field {}: expected {}, found {}", key, expected, found));
}

const Json& field(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) fail_field(key, "a value", "none");
  return *found;
}

std::string text_of(const Json& object, const char* key) {
  const Json& value = field(object, key);
  if (!value.is_string()) fail_field(key, "a string", value.type_name());
  return value.get<std::string>();
}

Size integer(const Json& value, const char* key) {
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() >> 63 != 0)) {
    fail_field(key, "an integer", value.dump());
  }
  return value.get<Size>();
}
Size integer_of(const Json& object, const char* key) { return integer(field(object, key), key); }

Size count_of(const Json& object, const char* key) {
  const Size value = integer_of(object, key);
  if (value < 0) fail_field(key, "no negative number", std::to_string(value));
  return value;
}

const Json& array_of(const Json& object, const char* key, Size limit) {
  const Json& value = field(object, key);
  if (!value.is_array()) fail_field(key, "an array", value.type_name());
  if (static_cast<Size>(value.size()) > limit) {
    fail_field(key, fmt::format("at most {} elements", limit), std::to_string(value.size()));
  }
  return value;
}

// The JSON library takes stack or memory for each level, so the depth is checked before it sees the text.
void require_shallow(std::string_view text) {
  const int depth = io::json_depth(text);
  if (depth <= io::kMaxJsonDepth) return;
  throw DataError("checkpoint", fmt::format("manifest.json: expected at most {} levels of arrays and objects, found {}",
                                            io::kMaxJsonDepth, depth));
}

std::uint32_t crc(const Json& value, const char* key) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  std::uint32_t result = 0;
  for (const char c : text) {
    const bool letter = c >= 'a' && c <= 'f';
    if (text.size() != 8 || (!letter && (c < '0' || c > '9'))) fail_field(key, "8 hexadecimal digits", text);
    result = result << 4 | static_cast<std::uint32_t>(letter ? c - 'a' + 10 : c - '0');
  }
  return result;
}

Json to_json(const DatasetEntry& dataset) {
  Json blocks = Json::array();
  for (const std::uint32_t block : dataset.blocks) blocks.push_back(io::crc_text(block));
  return {{"parameter", dataset.parameter},
          {"kind", dataset.kind},
          {"begin", dataset.begin},
          {"end", dataset.end},
          {"path", dataset.path},
          {"offset", dataset.offset},
          {"crc32c_blocks", std::move(blocks)}};
}

std::string kind_from(const Json& json) {
  const std::string kind = text_of(json, "kind");
  if (!is_kind_name(kind)) fail_field("kind", "1 to 32 of a to z, 0 to 9 and _", kind);
  return kind;
}

DatasetEntry dataset_from(const Json& json) {
  DatasetEntry dataset{text_of(json, "parameter"),
                       kind_from(json),
                       count_of(json, "begin"),
                       count_of(json, "end"),
                       text_of(json, "path"),
                       count_of(json, "offset"),
                       {},
                       DType::f32};
  for (const Json& block : array_of(json, "crc32c_blocks", kMaxBlocks))
    dataset.blocks.push_back(crc(block, "crc32c_blocks"));
  return dataset;
}

// An array with one element per line.
template <class T, class Text>
std::string lines_of(const T& elements, const std::string& indent, Text&& text_of_element) {
  std::string text = "[";
  for (const auto& element : elements) text += (text.size() > 1 ? ",\n" : "\n") + indent + text_of_element(element);
  return text + "]";
}

std::string file_text(const FileEntry& file) {
  const Json json = {{"name", file.name},
                     {"bytes", file.bytes},
                     {"crc32c", io::crc_text(file.crc)},
                     {"crc32c_metadata", io::crc_text(file.crc_metadata)}};
  std::string text = json.dump();
  text.back() = ',';
  const auto dataset_text = [](const DatasetEntry& dataset) { return to_json(dataset).dump(); };
  return text + "\"datasets\":" + lines_of(file.datasets, "   ", dataset_text) + "}";
}

std::string parameter_text(const ParameterInfo& parameter) {
  const auto& [name, shape] = parameter;
  return Json{{"name", name}, {"shape", std::vector<Size>(shape.begin(), shape.end())}}.dump();
}

FileEntry file_from(const Json& json) {
  FileEntry file{text_of(json, "name"),
                 count_of(json, "bytes"),
                 crc(field(json, "crc32c"), "crc32c"),
                 crc(field(json, "crc32c_metadata"), "crc32c_metadata"),
                 {}};
  for (const Json& dataset : array_of(json, "datasets", kMaxDatasets)) file.datasets.push_back(dataset_from(dataset));
  return file;
}

std::string states_text(const std::vector<StateKind>& kinds) {
  Json states = Json::array();
  for (const StateKind& kind : kinds) {
    states.push_back({{"kind", kind.name}, {"dtype", dtype_name(kind.dtype)}});
    if (kind.partial) states.back()["partial"] = true;
  }
  return states.dump();
}

DType state_dtype_from(const Json& json, const std::string& kind) {
  const std::string name = text_of(json, "dtype");
  if (const auto dtype = find_state_dtype(name)) return *dtype;
  fail_field("states", fmt::format("{} of dtype f32, bf16 or f16", kind), name);
}

// A manifest names its kinds and their dtypes, so that a reader can name an unknown one when it refuses it.
std::vector<StateKind> kinds_from(const Json& json) {
  std::vector<StateKind> kinds;
  for (const Json& state : array_of(json, "states", static_cast<Size>(kMaxKinds))) {
    const std::string name = kind_from(state);
    if (find_kind(kinds, name) != nullptr) fail_field("states", "each kind once", name + " twice");
    kinds.emplace_back(name, state_dtype_from(state, name));
    if (!state.contains("partial")) continue;
    if (!state["partial"].is_boolean() || name == kMaster) {
      fail_field("states", "partial as true or false, and all masters", state.dump());
    }
    kinds.back().partial = state["partial"].get<bool>();
  }
  if (kinds.empty() || kinds[0].name != kMaster) fail_field("states", "master as the first kind", states_text(kinds));
  return kinds;
}

std::string data_file_text(const DataFile& file) {
  const Json json = {{"source", file.source}, {"path", file.path}, {"bytes", file.bytes}, {"digest", file.digest}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);  // a path may be no UTF-8
}

DataFile data_file_from(const Json& json) {
  return {count_of(json, "source"), text_of(json, "path"), count_of(json, "bytes"), text_of(json, "digest")};
}

std::string computed_by_text(const ComputedBy& computed_by) {
  Json json = Json::object();
  for (const auto& [name, value] : computed_by) json[name] = value;
  return json.dump();
}

ComputedBy computed_by_from(const Json& json) {
  if (!json.is_object()) fail_field("computed_by", "an object", json.type_name());
  ComputedBy computed_by;
  for (const auto& [name, value] : json.items()) computed_by.emplace_back(name, text_of(json, name.c_str()));
  return computed_by;
}

// A run's id; may be empty if `optional`.
std::string id_of(const Json& json, const char* key, bool optional) {
  const std::string id = text_of(json, key);
  if (!(optional && id.empty()) && !is_run_id(id)) fail_field(key, "letters, digits and dashes, at most 64", id);
  return id;
}

ParameterInfo parameter_from(const Json& json) {
  std::vector<Size> sizes;
  Size elements = 1;
  for (const Json& size : array_of(json, "shape", Shape::kMaxDims)) {
    sizes.push_back(integer(size, "shape"));
    if (sizes.back() < 0 || __builtin_mul_overflow(elements, sizes.back(), &elements)) {
      fail_field("shape", "sizes whose product fits 63 bits", json.at("shape").dump());
    }
  }
  if (elements > (Size{1} << 60)) fail_field("shape", "at most 2^60 elements", json.at("shape").dump());
  return {text_of(json, "name"), Shape(std::span<const Size>(sizes))};
}

// Writes bytes that are not UTF-8, such as a SentencePiece model, in base64.
std::string named_bytes_text(const std::pair<const std::string, std::string>& entry) {
  const auto& [name, bytes] = entry;
  Json json = {{"name", name}};
  io::is_utf8(bytes) ? json["text"] = bytes : json["base64"] = io::to_base64(bytes);
  return json.dump();
}

// `key`: the list of the object.
std::string bytes_from(const Json& json, const char* key) {
  if (json.contains("text")) return text_of(json, "text");
  const auto bytes = io::from_base64(text_of(json, "base64"));
  if (!bytes) fail_field(key, text_of(json, "name") + " in base64", "other text");
  return *bytes;
}

// Names are those of a table, because export_hf() writes files of these names.
std::pair<std::string, std::string> tokenizer_file_from(const Json& json) {
  const std::string name = text_of(json, "name");
  if (!tokenizer::is_tokenizer_file(name)) fail_field("tokenizer_files", "the name of a tokenizer's file", name);
  return {name, bytes_from(json, "tokenizer_files")};
}

constexpr const char* kState = "program_state";

Size bytes_of(const State& state) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : state) bytes += name.size() + value.size();
  return static_cast<Size>(bytes);
}

State state_from(const Json& entries) {
  State state;
  for (const Json& entry : entries) {
    const std::string name = text_of(entry, "name");
    if (name.empty()) fail_field(kState, "names that are not empty", "an empty one");
    if (!state.emplace(name, bytes_from(entry, kState)).second) fail_field(kState, "each name once", name + " twice");
  }
  if (bytes_of(state) > kMaxStateBytes) {
    fail_field(kState, fmt::format("at most {} bytes", kMaxStateBytes), std::to_string(bytes_of(state)));
  }
  return state;
}

// Rethrows the JSON library's errors as DataError.
template <class Body>
auto translated(Body&& body) {
  try {
    return body();
  } catch (const Json::exception& e) {
    throw DataError("checkpoint", std::string("manifest.json: ") + e.what());
  }
}

}  // namespace

std::string detail::open_object_text(const Manifest& manifest) {
  return translated([&] {
    const RunState& state = manifest.state;
    if (!std::isfinite(state.loss_scale)) fail_field("loss_scale", "a finite number", std::to_string(state.loss_scale));
    require_shallow(state.model);
    const Json model = state.model.empty() ? Json::object() : Json::parse(state.model);
    if (!model.is_object()) fail_field("model", "an object", model.type_name());
    std::string text = "{";
    const auto add = [&](const char* key, const std::string& value) {
      text += fmt::format("{}\n \"{}\": {}", text.size() > 1 ? "," : "", key, value);
    };
    add("format", Json(kFormat).dump());
    add("version", Json(kVersion).dump());
    add("run", Json(state.run).dump());
    add("parent", Json(state.parent).dump());
    add("states", states_text(manifest.kinds));
    add("step", Json(state.step).dump());
    add("samples", Json(state.samples).dump());
    add("data_tokens", Json(state.data_tokens).dump());
    add("seed", Json(state.seed).dump());
    add("loss_scale", Json(state.loss_scale).dump());
    add("loss_scale_steps", Json(state.loss_scale_steps).dump());
    add("skipped", Json(state.skipped).dump());
    if (state.eval_loss && std::isfinite(*state.eval_loss)) add("eval_loss", Json(*state.eval_loss).dump());
    add("world_size", Json(manifest.world_size).dump());
    if (state.threads_per_rank > 0) add("threads_per_rank", Json(state.threads_per_rank).dump());
    if (!state.computed_by.empty()) add("computed_by", computed_by_text(state.computed_by));
    add("config_hash", Json(state.config_hash).dump());
    add("model", model.dump());
    if (!state.base_digest.empty()) {
      add("base", Json{{"from", state.base}, {"beside", state.base_beside}, {"digest", state.base_digest}}.dump());
    }
    if (!state.data_files.empty()) add("data_files", lines_of(state.data_files, "  ", data_file_text));
    add("parameters", lines_of(manifest.parameters, "  ", parameter_text));
    add("files", lines_of(manifest.files, "  ", file_text));
    add("config", Json(state.config).dump());
    add("tokenizer", Json(state.tokenizer).dump());
    if (!state.tokenizer_files.empty()) add("tokenizer_files", lines_of(state.tokenizer_files, "  ", named_bytes_text));
    if (!state.program.empty()) add(kState, lines_of(state.program, "  ", named_bytes_text));
    return text;
  });
}

Manifest detail::parse_object(const std::string& text) {
  return translated([&] {
    require_shallow(text);
    const Json json = Json::parse(text);
    if (text_of(json, "format") != kFormat) fail_field("format", std::string(kFormat), text_of(json, "format"));
    const Size version = integer_of(json, "version");
    if (version != kVersion) fail_field("version", std::to_string(kVersion), std::to_string(version));
    Manifest manifest;
    RunState& state = manifest.state;
    state.run = id_of(json, "run", false), state.parent = id_of(json, "parent", true);
    state.step = count_of(json, "step");
    state.samples = count_of(json, "samples");
    state.data_tokens = count_of(json, "data_tokens");
    if (!field(json, "seed").is_number_unsigned())
      fail_field("seed", "an unsigned integer", field(json, "seed").dump());
    state.seed = field(json, "seed").get<std::uint64_t>();
    if (!field(json, "loss_scale").is_number()) fail_field("loss_scale", "a number", field(json, "loss_scale").dump());
    state.loss_scale = field(json, "loss_scale").get<double>();
    if (!(state.loss_scale > 0) || !std::isfinite(static_cast<float>(state.loss_scale))) {
      fail_field("loss_scale", "a positive f32", field(json, "loss_scale").dump());
    }
    state.loss_scale_steps = count_of(json, "loss_scale_steps");
    state.skipped = count_of(json, "skipped");
    if (json.contains("eval_loss")) {
      if (!json["eval_loss"].is_number()) fail_field("eval_loss", "a number", json["eval_loss"].dump());
      state.eval_loss = json["eval_loss"].get<double>();
    }
    for (const auto& [name, count] :
         {std::pair{"loss_scale_steps", state.loss_scale_steps}, {"skipped", state.skipped}}) {
      if (count > std::numeric_limits<std::int32_t>::max()) fail_field(name, "at most 2^31 - 1", std::to_string(count));
    }
    const Size world_size = count_of(json, "world_size");
    if (world_size > kMaxFiles) fail_field("world_size", "at most 2^20", std::to_string(world_size));
    manifest.world_size = static_cast<int>(world_size);
    if (json.contains("threads_per_rank")) state.threads_per_rank = count_of(json, "threads_per_rank");
    if (json.contains("computed_by")) state.computed_by = computed_by_from(json["computed_by"]);
    state.config_hash = text_of(json, "config_hash");
    state.config = text_of(json, "config");
    state.tokenizer = text_of(json, "tokenizer");
    if (json.contains("tokenizer_files")) {
      for (const Json& file : array_of(json, "tokenizer_files", kMaxTokenizerFiles))
        state.tokenizer_files.insert(tokenizer_file_from(file));
    }
    if (json.contains(kState)) state.program = state_from(array_of(json, kState, kMaxStateBytes));
    const Json& model = field(json, "model");
    if (!model.is_object()) fail_field("model", "an object", model.type_name());
    state.model = model.empty() ? "" : model.dump();
    if (json.contains("base")) {
      const Json& base = json["base"];
      state.base = text_of(base, "from"), state.base_beside = text_of(base, "beside");
      state.base_digest = text_of(base, "digest");
    }
    if (json.contains("data_files")) {
      for (const Json& file : array_of(json, "data_files", kMaxFiles)) state.data_files.push_back(data_file_from(file));
    }
    for (const Json& parameter : array_of(json, "parameters", kMaxParameters)) {
      manifest.parameters.push_back(parameter_from(parameter));
    }
    for (const Json& file : array_of(json, "files", kMaxFiles)) manifest.files.push_back(file_from(file));
    manifest.kinds = kinds_from(json);
    const std::vector<StateKind> occur = kinds_that_occur(manifest.kinds, manifest.files);
    if (occur != manifest.kinds) {
      fail_field("states", states_text(occur) + " by the datasets", states_text(manifest.kinds));
    }
    set_dtypes(manifest.files, manifest.kinds);
    return manifest;
  });
}

std::string file_entry_text(const FileEntry& file) {
  return translated([&] { return file_text(file); });
}

FileEntry parse_file_entry(const std::string& text) {
  return translated([&] { return file_from(Json::parse(text)); });
}

void require_valid(const State& state) {
  for (const auto& [name, value] : state) {
    if (name.empty()) throw UsageError("checkpoint", "state", "names that are not empty", "an empty one");
    if (!io::is_utf8(name)) throw UsageError("checkpoint", "state", "names in UTF-8", "other bytes");
  }
  if (bytes_of(state) <= kMaxStateBytes) return;
  throw UsageError("checkpoint", "state", fmt::format("at most {} bytes of names and values", kMaxStateBytes),
                   std::to_string(bytes_of(state)), "put more into a file of the program's own, and name it here");
}

std::string state_text(const State& state) {
  return translated([&] { return lines_of(state, "", named_bytes_text); });
}

State parse_state(const std::string& text) {
  return translated([&] {
    require_shallow(text);
    const Json entries = Json::parse(text);
    if (!entries.is_array()) fail_field(kState, "an array", entries.type_name());
    return state_from(entries);
  });
}

}  // namespace lt::checkpoint
