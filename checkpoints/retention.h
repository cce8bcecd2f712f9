// What happens beside the checkpoints once a new one stands: the hint at the newest, and making room.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lt::checkpoint {

// Points `directory`/LATEST at the folder `name`, in one rename.
void write_latest(const std::filesystem::path& directory, const std::string& name, const std::string& run_id);

// Removes from `directory` what the checkpoint `newest`, just committed there, makes superfluous:
//   - valid checkpoints beyond the newest `keep` (at least 2), never `newest` itself;
//   - what interrupted saves and removals left, where nothing in it is younger than the manifest of `newest`.
// Folders that are not valid, and those moved aside, are evidence, stay, and do not count. Where something would go,
// a folder is valid by every byte of it: saved or verified by this process, or read now, once a process (whole.h).
void make_room(const std::filesystem::path& directory, const std::string& newest, int keep, const std::string& run_id);

}  // namespace lt::checkpoint
