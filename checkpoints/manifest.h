// The manifest: what a checkpoint holds and the checksum of every byte of it. A manifest that was read is consistent in
// itself: every dataset lies inside its file and its parameter, and every element of every kind that a parameter has is
// in exactly one dataset. docs/checkpoint-format.md describes the file.
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"

namespace lt::checkpoint {

// Bounds of a manifest, so that no text makes a reader take more memory or stack than the text's own size explains.
inline constexpr Size kMaxManifestBytes = Size{1} << 30;
inline constexpr Size kMaxParameters = Size{1} << 20;
inline constexpr Size kMaxFiles = Size{1} << 20;
inline constexpr Size kMaxDatasets = Size{1} << 20;  // of one file
inline constexpr Size kMaxBlocks = Size{1} << 24;    // of one dataset

// Elements [begin, end) of one parameter's state: little-endian, contiguous at byte `offset` of its file.
struct DatasetEntry {
  std::string parameter;
  std::string kind = kMaster;
  Size begin = 0, end = 0;
  std::string path;                   // inside the file, "/m/blocks.0.norm1.weight"
  Size offset = 0;                    // bytes
  std::vector<std::uint32_t> blocks;  // crc32c of each kBlockBytes of the payload, the last one shorter
  DType dtype = DType::f32;           // that of its kind

  Size bytes() const { return (end - begin) * dtype_bytes(dtype); }
};

struct FileEntry {
  std::string name;
  Size bytes = 0;
  std::uint32_t crc = 0;           // of all bytes
  std::uint32_t crc_metadata = 0;  // of all bytes that are no dataset's payload, in the order of the file
  std::vector<DatasetEntry> datasets;
};

struct Manifest {
  RunState state;
  int world_size = 0;
  std::vector<ParameterInfo> parameters;
  std::vector<FileEntry> files;
  std::vector<StateKind> kinds = {kMaster};  // of state that it has, the masters first
};

// "master/blocks.0.norm1.weight".
std::string to_string(const DatasetEntry& dataset);
// "master/blocks.0.norm1.weight[0, 64)".
std::string to_string(const std::string& kind, const std::string& parameter, Size begin, Size end);

// Those of `candidates` that a dataset is of, and always the masters.
std::vector<StateKind> kinds_that_occur(const std::vector<StateKind>& candidates, const std::vector<FileEntry>& files);
// Each dataset gets the dtype of its kind. Those of no kind in the list stay as they are.
void set_dtypes(std::vector<FileEntry>& files, const std::vector<StateKind>& kinds);
// Null where there is none of that name.
const StateKind* find_kind(const std::vector<StateKind>& kinds, const std::string& name);

// weight_kinds() of libtrain/checkpoint.h.
std::unordered_map<std::string, std::string> weight_kinds(const Manifest& manifest, const std::string& weights);

// Throws DataError unless the manifest is consistent in itself.
void check_consistent(const Manifest& manifest);

// The text of manifest.json. Its last line but one is the crc32c of all bytes before that line.
std::string manifest_text(const Manifest& manifest);
// Reads what manifest_text() wrote, and version 1; throws DataError for any other bytes.
Manifest parse_manifest(const std::string& text);
// Reads `folder`/manifest.json; messages start with "manifest.json". A folder step-N must hold step N.
Manifest read_manifest(const std::filesystem::path& folder);

// One file's part of the manifest, as ranks send it to rank 0.
std::string file_entry_text(const FileEntry& file);
FileEntry parse_file_entry(const std::string& text);

namespace detail {
// The fields of the manifest but for its checksum (manifest_json.cpp): an object without the closing brace, and back.
std::string open_object_text(const Manifest& manifest);
Manifest parse_object(const std::string& text);
}  // namespace detail

}  // namespace lt::checkpoint
