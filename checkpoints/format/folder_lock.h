// Locks a folder, so that one process at a time writes to it.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "libtrain/error.h"

namespace lt::checkpoint {

// NFS locks a file for all hosts, but a folder only for the processes of one host. The file is kLockName in the folder.
// It stays behind unless the folder holds nothing else.
enum class LockOn { folder, folder_and_file };
inline constexpr const char* kLockName = ".lock";

// Holds the lock until the last copy of the result is destroyed. Returns nullopt if another process holds it, and null
// if there is no such folder or its file system has no locks. Without the right or the room to make the file, the lock
// is on the folder alone. Within one process, all holders share the lock. Throws DataError on other failures of the
// system.
std::optional<std::shared_ptr<void>> try_lock_folder(const std::filesystem::path& folder, LockOn on = LockOn::folder);

// Another process holds the lock.
struct FolderTaken : DataError {
  using DataError::DataError;
};
// Waits for the lock. Throws FolderTaken after `patience`.
std::shared_ptr<void> lock_folder(const std::filesystem::path& folder, std::chrono::milliseconds patience,
                                  LockOn on = LockOn::folder);

}  // namespace lt::checkpoint
