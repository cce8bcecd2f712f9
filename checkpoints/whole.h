// Which step folders this process knows to be whole, so that none is read twice for it. What is known is of the files
// as they were then: a folder of which one has another size, time or inode is not known any more.
#pragma once

#include <filesystem>

namespace lt::checkpoint {

// Notes what reading or writing every byte of `folder` has shown.
void remember_whole(const std::filesystem::path& folder, bool whole);

// True where every byte of `folder` is as the manifest says; reads them where that is not known.
bool is_whole(const std::filesystem::path& folder);

}  // namespace lt::checkpoint
