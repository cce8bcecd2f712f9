// Updates a checkpoints folder after a save: LATEST, and the removal of superfluous checkpoints. The caller must hold
// the folder's lock.
#pragma once

#include <filesystem>
#include <string>

#include "libtrain/checkpoints/checkpoint.h"

namespace lt::checkpoint {

// Points `directory`/LATEST at the folder `name`, in one rename. `attempt`: see run_id.h.
void write_latest(const std::filesystem::path& directory, const std::string& name, const std::string& attempt);

// Removes from `directory` what `newest`, a checkpoint newly committed by the run, makes superfluous: the run's valid
// checkpoints beyond the newest `options.keep` (at least 2), except those that options.keep_every and options.best
// keep; never `newest` itself. Other runs' checkpoints are not touched. Invalid folders, and those moved aside, are
// evidence: they stay and do not count. If anything is to be removed, a folder is valid only if every byte of it is:
// this process saved or verified it, or reads it now, once (known_folders.h).
void make_room(const std::filesystem::path& directory, const std::string& newest, const std::string& run,
               const SaveOptions& options);

// The checkpoints that count as the run's.
inline RunFilter filter_of(const std::string& run, const SaveOptions& options) {
  return {run, options.version_1, options.copied_from};
}

// Removes the remains of interrupted saves and removals of the run. A save that begins may need their room.
void remove_leftovers(const std::filesystem::path& directory, const RunFilter& runs);

}  // namespace lt::checkpoint
