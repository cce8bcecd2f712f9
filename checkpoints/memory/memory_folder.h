// A run's copies in memory on this host.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "checkpoints/memory/memory_copy.h"

namespace lt::checkpoint {

// /dev/shm/libtrain-<run>.
std::filesystem::path memory_folder(const std::string& run);
// Creates it, for this user alone. Throws DataError if it belongs to somebody else.
void make_memory_folder(const std::string& run);
// A run's copies on this host, of any rank, by file name.
std::map<std::string, std::unique_ptr<MemoryCopy>> memory_copies(const std::string& run);
// Whether a process on this host is writing any of them.
bool is_memory_in_use(const std::string& run);
// Removes them and their folder. Returns the number of bytes freed. Throws DataError.
Size remove_memory_copies(const std::string& run);

}  // namespace lt::checkpoint
