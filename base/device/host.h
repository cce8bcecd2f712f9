// Identifies the kernel that a process runs under.
#pragma once

#include <filesystem>
#include <string>

namespace lt::device {

// Returns the same text for all processes under one kernel, in any container, and a different text after each boot: the
// boot id, or the host name if the boot id cannot be read.
std::string kernel_identity(const std::filesystem::path& root = "/");

}  // namespace lt::device
