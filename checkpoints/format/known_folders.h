// Caches two facts about step folders in this process, so that no file is read twice for them: the manifest's listing,
// and if every byte matches the manifest. A folder's entry becomes invalid when the size, time or inode of one of its
// files changes.
#pragma once

#include <filesystem>
#include <functional>

#include "libtrain/checkpoints/checkpoint.h"

namespace lt::checkpoint {

// Returns `look()` for `folder`, cached. Only a valid listing is cached.
Listing remembered(const std::filesystem::path& folder, const std::function<Listing()>& look);

// Records the result of reading or writing all bytes of `folder`: `whole` is true if they matched the manifest.
void remember_whole(const std::filesystem::path& folder, bool whole);

// Returns true if every byte of `folder` matches the manifest. Reads the bytes unless the answer is cached.
bool is_whole(const std::filesystem::path& folder);

}  // namespace lt::checkpoint
