// Checksums of a shard file on disk: payloads in blocks, and all bytes between them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoints/format/manifest.h"

namespace lt::checkpoint {

struct FileChecksums {
  std::uint32_t file = 0;
  std::uint32_t metadata = 0;                      // of all bytes outside payloads
  std::vector<std::vector<std::uint32_t>> blocks;  // in the order of the datasets given
};
// Receives the number of bytes read since its last call, on the thread of the caller.
using CountBytes = std::function<void(Size bytes)>;

// Reads each byte once, possibly on several threads. Throws DataError if payloads overlap or pass the end of the file.
FileChecksums checksums_of(const std::filesystem::path& file, const std::vector<DatasetEntry>& datasets,
                           const CountBytes& count = {});
// Like checksums_of(), but takes the payloads' checksums from `entry` and reads only the bytes between the payloads.
// `blocks` stays empty.
FileChecksums checksums_around(const std::filesystem::path& file, const FileEntry& entry);

// Names the elements of a dataset's block, as in "master/a[0, 1048576)".
std::string block_name(const DatasetEntry& dataset, std::size_t block);

}  // namespace lt::checkpoint
