// Caches facts about step folders in this process, so that no file is read twice for them: the manifest's listing, and
// whether every byte is as the manifest says. A folder counts as unknown once the size, time or inode of one of its
// files changes.
#pragma once

#include <filesystem>
#include <functional>

#include "libtrain/checkpoints/checkpoint.h"

namespace lt::checkpoint {

// Returns `look()` for `folder`, cached. Only a valid listing is cached.
Listing remembered(const std::filesystem::path& folder, const std::function<Listing()>& look);

// Records whether `folder` was whole when all its bytes were read or written.
void remember_whole(const std::filesystem::path& folder, bool whole);

// Returns whether every byte of `folder` is as the manifest says. Reads the bytes if that is not known.
bool is_whole(const std::filesystem::path& folder);

}  // namespace lt::checkpoint
