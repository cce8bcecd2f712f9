// Checksums of a shard file as it stands: payloads in blocks, and all that lies between them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "manifest.h"

namespace lt::checkpoint {

struct FileChecksums {
  std::uint32_t file = 0;
  std::uint32_t metadata = 0;                      // of what is no payload
  std::vector<std::vector<std::uint32_t>> blocks;  // in the order of the datasets given
};
// Reads each byte once, maybe on several threads. Throws DataError where payloads overlap or pass its end.
FileChecksums checksums_of(const std::filesystem::path& file, const std::vector<DatasetEntry>& datasets);
// The same where the payloads are as `entry` says: what lies between them is read, and nothing else. `blocks` stays
// empty.
FileChecksums checksums_around(const std::filesystem::path& file, const FileEntry& entry);

// Elements of block `block` of a dataset, "master/a[0, 1048576)".
std::string block_name(const DatasetEntry& dataset, std::size_t block);

}  // namespace lt::checkpoint
