// Lists the problems of a checkpoint, file by file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/format/manifest.h"

namespace lt::checkpoint {

// Every problem of one step's folder, each as "file: what, expected, actual"; empty if the folder is whole. Checks the
// manifest and file sizes and, with `checksums`, every byte of every file; known_folders.h then caches the answer. If
// the manifest is valid, `read` receives it.
std::vector<std::string> problems_of(const std::filesystem::path& folder, bool checksums, Manifest* read = nullptr);

}  // namespace lt::checkpoint
