// A folder that one process at a time writes to.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

namespace lt::checkpoint {

// Holds the folder until the last copy goes; nullopt where another process holds it. A file system without locks gives
// none (null). Within one process all holders share the lock.
std::optional<std::shared_ptr<void>> try_lock_folder(const std::filesystem::path& folder);

// Waits for it; throws DataError after `patience`.
std::shared_ptr<void> lock_folder(const std::filesystem::path& folder, std::chrono::milliseconds patience);

}  // namespace lt::checkpoint
