// Updates a checkpoints folder after a save: writes LATEST and removes superfluous checkpoints. The caller must hold
// the folder's lock.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoints/format/find.h"
#include "libtrain/checkpoints/checkpoint.h"

namespace lt::checkpoint {

// Points `directory`/LATEST at the folder `name`, in one rename. `attempt`: see run_id.h.
void write_latest(const std::filesystem::path& directory, const std::string& name, const std::string& attempt);

// Removes the run's superfluous checkpoints from `directory` after the run has committed `newest`. Keeps the newest
// `options.keep` valid ones (at least 2), those that options.keep_every and options.best select, and always `newest`.
// Never touches other runs' checkpoints. Invalid folders and folders that were moved aside are evidence: they are kept
// and not counted. Before it removes anything, it checks every byte of the folders that it counts, once in this process
// (known_folders.h).
void remove_superfluous(const std::filesystem::path& directory, const std::string& newest, const std::string& run,
                        const SaveOptions& options);

// Selects the checkpoints of the run and of the runs in options.copied_from.
inline RunFilter filter_of(const std::string& run, const SaveOptions& options) { return {run, options.copied_from}; }

// Removes the remains of interrupted saves and removals of `runs`. A new save may need the disk space.
void remove_leftovers(const std::filesystem::path& directory, const RunFilter& runs);

}  // namespace lt::checkpoint
