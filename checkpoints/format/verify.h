// Lists the problems of a checkpoint, file by file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/format/manifest.h"
#include "checkpoints/format/shard_checksums.h"

namespace lt::checkpoint {

// Returns every problem of a step folder, each as "file: what, expected, actual"; empty if the folder is whole. Checks
// the manifest and file sizes and, with `checksums`, every byte of every file; known_folders.h then caches the answer.
// If the manifest is valid, it is stored in `read`. Counts the bytes of all files of the manifest, as they are checked.
std::vector<std::string> problems_of(const std::filesystem::path& folder, bool checksums, Manifest* read = nullptr,
                                     const CountBytes& count = {});

}  // namespace lt::checkpoint
