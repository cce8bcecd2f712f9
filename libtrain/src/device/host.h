// Identifies the kernel that a process runs under.
#pragma once

#include <filesystem>
#include <string>

namespace lt {

// Returns the same text for all processes under one kernel, in any container, and a different one for each start of a
// kernel: its boot id, or the name of the host if that cannot be read.
std::string kernel_identity(const std::filesystem::path& root = "/");

}  // namespace lt
