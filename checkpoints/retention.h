// What happens beside the checkpoints once a new one stands: the hint at the newest, and making room. Whoever calls it
// has the folder alone.
#pragma once

#include <filesystem>
#include <string>

#include "libtrain/checkpoints/checkpoint.h"

namespace lt::checkpoint {

// Points `directory`/LATEST at the folder `name`, in one rename. `attempt`: run_id.h.
void write_latest(const std::filesystem::path& directory, const std::string& name, const std::string& attempt);

// Removes from `directory` what the checkpoint `newest`, just committed there by the run, makes superfluous:
//   - the run's valid checkpoints beyond the newest `options.keep` (at least 2), but for those that options.keep_every
//     and options.best keep; never `newest` itself;
//   - what interrupted saves and removals of the run left.
// Other runs' checkpoints are not touched. Folders that are not valid, and those moved aside, are evidence, stay, and
// do not count. Where something would go, a folder is valid by every byte of it: saved or verified by this process, or
// read now, once a process (known_folders.h).
void make_room(const std::filesystem::path& directory, const std::string& newest, const std::string& run,
               const SaveOptions& options);

}  // namespace lt::checkpoint
