// The manifest lists the contents of a checkpoint, with checksums that cover every byte. A manifest that was read is
// consistent in itself: every dataset lies inside its file and its parameter, and every element of every kind that a
// parameter has is in exactly one dataset. docs/reference/checkpoint-format.md describes the file.
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"

namespace lt::checkpoint {

// Limits of a manifest. They ensure that no text makes a reader use more memory or stack than the text's own size
// justifies.
inline constexpr Size kMaxManifestBytes = Size{1} << 30;
inline constexpr Size kMaxTokenizerFiles = Size{1} << 10;
inline constexpr Size kMaxParameters = Size{1} << 20;
inline constexpr Size kMaxFiles = Size{1} << 20;
inline constexpr Size kMaxDatasets = Size{1} << 20;  // per file
inline constexpr Size kMaxBlocks = Size{1} << 24;    // per dataset

// Elements [begin, end) of one parameter's state: little-endian, contiguous at byte `offset` of its file.
struct DatasetEntry {
  std::string parameter;
  std::string kind = kMaster;
  Size begin = 0, end = 0;
  std::string path;                   // inside the file, "/m/blocks.0.norm1.weight"
  Size offset = 0;                    // bytes
  std::vector<std::uint32_t> blocks;  // crc32c of each kBlockBytes of the payload; the last may be shorter
  DType dtype = DType::f32;           // the kind's dtype

  Size bytes() const { return (end - begin) * dtype_bytes(dtype); }
};

struct FileEntry {
  std::string name;
  Size bytes = 0;
  std::uint32_t crc = 0;           // over all bytes
  std::uint32_t crc_metadata = 0;  // over all bytes outside the datasets' payloads, in file order
  std::vector<DatasetEntry> datasets;
};

struct Manifest {
  RunState state;
  int world_size = 0;
  std::vector<ParameterInfo> parameters;
  std::vector<FileEntry> files;
  std::vector<StateKind> kinds = {kMaster};  // kinds of state in the checkpoint, the masters first
};

// "master/blocks.0.norm1.weight".
std::string to_string(const DatasetEntry& dataset);
// "master/blocks.0.norm1.weight[0, 64)".
std::string to_string(const std::string& kind, const std::string& parameter, Size begin, Size end);

// Returns the `candidates` that at least one dataset has, and always the masters.
std::vector<StateKind> kinds_that_occur(const std::vector<StateKind>& candidates, const std::vector<FileEntry>& files);
// Sets each dataset's dtype to its kind's dtype. Datasets of a kind that is not in the list keep their dtype.
void set_dtypes(std::vector<FileEntry>& files, const std::vector<StateKind>& kinds);
// Returns null if no kind has that name.
const StateKind* find_kind(const std::vector<StateKind>& kinds, const std::string& name);

// See weight_kinds() in checkpoints/format/load.h.
std::unordered_map<std::string, std::string> weight_kinds(const Manifest& manifest, const std::string& weights);

// Throws DataError, which names the first difference, if the checkpoint's parameters differ from `parameters`.
void require_parameters(const Manifest& manifest, const std::vector<ParameterInfo>& parameters);

// Throws DataError unless the manifest is consistent in itself.
void check_consistent(const Manifest& manifest);

// The text of manifest.json. Its second-to-last line holds the crc32c of all bytes before that line.
std::string manifest_text(const Manifest& manifest);
// Reads the text of manifest_text(). Throws DataError for any other bytes.
Manifest parse_manifest(const std::string& text);
// Reads `folder`/manifest.json. Error messages start with "manifest.json". A folder step-N must hold step N.
Manifest read_manifest(const std::filesystem::path& folder);

// Convert one file's entry in the manifest to text, which ranks send to rank 0, and back.
std::string file_entry_text(const FileEntry& file);
FileEntry parse_file_entry(const std::string& text);

// Throws UsageError if the state breaks a rule of lt::State.
void require_valid(const State& state);
// Convert a program's state to text, which copies in memory hold, and back. parse_state() throws DataError.
std::string state_text(const State& state);
State parse_state(const std::string& text);

namespace detail {
// Convert the manifest's fields, without its checksum, to a JSON object that lacks the closing brace, and back from the
// whole text (manifest_json.cpp).
std::string open_object_text(const Manifest& manifest);
Manifest parse_object(const std::string& text);
}  // namespace detail

}  // namespace lt::checkpoint
