// What this process knows of step folders, so that no file is read twice for it: what the manifest says, and whether
// every byte is as it says. A folder counts as unknown once the size, time or inode of one of
// its files changes.
#pragma once

#include <filesystem>
#include <functional>

#include "libtrain/checkpoints/checkpoint.h"

namespace lt::checkpoint {

// What `look` says of `folder`, or said of it when it was last called. What is not valid is looked at each time.
Listing remembered(const std::filesystem::path& folder, const std::function<Listing()>& look);

// Notes what reading or writing every byte of `folder` has shown.
void remember_whole(const std::filesystem::path& folder, bool whole);

// True where every byte of `folder` is as the manifest says; reads them where that is not known.
bool is_whole(const std::filesystem::path& folder);

}  // namespace lt::checkpoint
