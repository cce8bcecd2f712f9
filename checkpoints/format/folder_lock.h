// Locks a folder, so that one process at a time writes to it.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "libtrain/error.h"

namespace lt::checkpoint {

// NFS locks a file for all hosts, but a folder only for the processes of one host. The file is kLockName in the folder.
// After the lock is released, the file remains unless the folder holds nothing else.
enum class LockOn { folder, folder_and_file };
inline constexpr const char* kLockName = ".lock";

// Takes the lock and holds it until the last copy of the result is destroyed. Returns nullopt if another process holds
// it. Returns a null pointer if the folder does not exist or its file system has no locks. If the file cannot be
// created, for lack of permission or disk space, locks the folder alone. Within one process, all holders share the
// lock. Throws DataError on other failures of the system.
std::optional<std::shared_ptr<void>> try_lock_folder(const std::filesystem::path& folder, LockOn on = LockOn::folder);

// Thrown if another process holds the lock.
struct FolderTaken : DataError {
  using DataError::DataError;
};
// Waits for the lock. Throws FolderTaken after `patience`.
std::shared_ptr<void> lock_folder(const std::filesystem::path& folder, std::chrono::milliseconds patience,
                                  LockOn on = LockOn::folder);

}  // namespace lt::checkpoint
