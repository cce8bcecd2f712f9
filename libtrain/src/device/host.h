// Which kernel a process runs under.
#pragma once

#include <filesystem>
#include <string>

namespace lt {

// One text for all processes under one kernel, in whichever container, and another for each start of a kernel: its boot
// id, or the name of the host where that cannot be read.
std::string kernel_identity(const std::filesystem::path& root = "/");

}  // namespace lt
