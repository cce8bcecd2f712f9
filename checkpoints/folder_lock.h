// Locks a folder, so that one process at a time writes to it.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

namespace lt::checkpoint {

// Holds the lock until the last copy of the result is destroyed. Returns nullopt if another process holds it, and null
// if the folder cannot be opened or its file system has no locks. Within one process, all holders share the lock.
std::optional<std::shared_ptr<void>> try_lock_folder(const std::filesystem::path& folder);

// Waits for the lock. Throws DataError after `patience`.
std::shared_ptr<void> lock_folder(const std::filesystem::path& folder, std::chrono::milliseconds patience);

}  // namespace lt::checkpoint
