// The copies in memory that a run has on this host.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "memory_copy.h"

namespace lt::checkpoint {

// /dev/shm/libtrain-<run>.
std::filesystem::path memory_folder(const std::string& run);
// Makes it, for this user alone. Throws DataError where it is somebody else's.
void make_memory_folder(const std::string& run);
// The copies of a run on this host, of whatever rank, by the name of their file.
std::map<std::string, std::unique_ptr<MemoryCopy>> memory_copies(const std::string& run);
// Whether a process on this host is writing any of them.
bool is_memory_in_use(const std::string& run);
// Removes them and their folder; returns the bytes that were given back. Throws DataError.
Size remove_memory_copies(const std::string& run);

}  // namespace lt::checkpoint
