// What is wrong with a checkpoint, file by file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "manifest.h"

namespace lt::checkpoint {

// Every problem of one step's folder, each as "file: what, expected, actual"; empty: it is whole. Without `checksums`
// manifest and file sizes are checked, with it every byte of every file; known_folders.h remembers the answer.
// Where the manifest is right, `read` receives it.
std::vector<std::string> problems_of(const std::filesystem::path& folder, bool checksums, Manifest* read = nullptr);

}  // namespace lt::checkpoint
