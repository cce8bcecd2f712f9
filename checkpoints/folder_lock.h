// Locks a folder, so that one process at a time writes to it.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "libtrain/error.h"

namespace lt::checkpoint {

// NFS locks a file for all hosts, but a folder only for the processes of one host. The file in a folder is kLockName,
// which stays behind.
enum class LockOn { folder, file_inside };
inline constexpr const char* kLockName = ".lock";

// Holds the lock until the last copy of the result is destroyed. Returns nullopt if another process holds it, and null
// if there is no such folder, if nothing can be written to it, or if its file system has no locks. Within one process,
// all holders share the lock. Throws DataError on other failures of the system.
std::optional<std::shared_ptr<void>> try_lock_folder(const std::filesystem::path& folder, LockOn on = LockOn::folder);

// Removes the file kLockName if the folder holds nothing else. For the holder of the lock; failures are ignored.
void remove_lock_if_alone(const std::filesystem::path& folder);

// Another process holds the lock.
struct FolderTaken : DataError {
  using DataError::DataError;
};
// Waits for the lock. Throws FolderTaken after `patience`.
std::shared_ptr<void> lock_folder(const std::filesystem::path& folder, std::chrono::milliseconds patience,
                                  LockOn on = LockOn::folder);

}  // namespace lt::checkpoint
