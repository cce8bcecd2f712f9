// Manages a run's copies in memory on this host.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "checkpoints/memory/memory_copy.h"

namespace lt::checkpoint {

// /dev/shm/libtrain-<run>.
std::filesystem::path memory_folder(const std::string& run);
// Creates the folder, accessible to this user alone. Throws DataError if it belongs to another user.
void make_memory_folder(const std::string& run);
// Returns a run's copies on this host, of all ranks, by file name.
std::map<std::string, std::unique_ptr<MemoryCopy>> memory_copies(const std::string& run);
// True if a process on this host is writing any of the run's copies.
bool is_memory_in_use(const std::string& run);
// Removes the run's copies and their folder. Returns the number of bytes freed. Throws DataError.
Size remove_memory_copies(const std::string& run);

}  // namespace lt::checkpoint
