// Identifies the kernel that a process runs under.
#pragma once

#include <filesystem>
#include <string>

namespace lt::device {

// Returns the boot id, or the host name if the boot id cannot be read. The boot id is the same for all processes under
// one kernel, in any container, and changes with each boot.
std::string kernel_identity(const std::filesystem::path& root = "/");

}  // namespace lt::device
