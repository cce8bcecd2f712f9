// What is wrong with a checkpoint, file by file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lt::checkpoint {

// Every problem of one step's folder, each as "file: what, expected, actual"; empty: it is whole. Without `checksums`
// manifest and file sizes are checked, with it every byte of every file; whole.h remembers the answer.
std::vector<std::string> problems_of(const std::filesystem::path& folder, bool checksums);

}  // namespace lt::checkpoint
