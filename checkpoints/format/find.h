// Finds the checkpoints of a run, or of any run, in a folder. Nothing here changes a file.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/error.h"

namespace lt::checkpoint {

// Selects checkpoints of a folder by their run.
struct RunFilter {
  std::string run;                            // run id; empty: any run
  std::vector<std::string> copied_from = {};  // ids of other runs that are included too

  bool includes(const std::string& id) const {
    return run.empty() || id == run || std::ranges::find(copied_from, id) != copied_from.end();
  }
};
inline const RunFilter kAnyRun;

// Returns the newest valid step folder in `path`, which is a step folder, a `checkpoints` folder or a run's folder.
// Appends to `notes` why it skipped newer ones. Returns nullopt if no step is valid. Verifies manifests and file sizes,
// and with `checksums` every byte; then `on_progress` is as in newest().
std::optional<std::string> find_newest(const std::string& path, const RunFilter& runs, std::vector<std::string>* notes,
                                       bool checksums, const OnProgress& on_progress = {});

// Returns the candidates in `path` for load_newest(), newest first: the valid checkpoints of `runs`, and every invalid
// folder with its `reason`. Reads manifests and file sizes. If `runs` has a run id, `path` must be the directory that
// the run saves to.
std::vector<Listing> candidates(const std::string& path, const RunFilter& runs);
// Returns the first valid candidate; null if there is none.
const Listing* newest_valid(const std::vector<Listing>& candidates);
// Returns the first file of the candidates that this process cannot open or start to read, and the system's reason.
// Such a checkpoint may be whole. Returns nullopt if there is no such file; missing files are ignored.
std::optional<std::string> first_unreadable(const std::vector<Listing>& candidates);

// Returns the newest checkpoint in the directory `path` that `runs` does not include and whose manifest and file sizes
// are valid; nullopt if there is none.
std::optional<Listing> find_other(const std::string& path, const RunFilter& runs);
// Throws UsageError, which names both runs, if find_other() finds a checkpoint. `named` is the configuration key that
// gave the path, or empty.
void require_no_other_run(const std::string& path, const RunFilter& runs, const std::string& named = "");

// Returns the step folders in the directory that a run saves to, oldest first. Verifies manifests and file sizes.
std::vector<Listing> saved_in(const std::string& directory);

// Like newest(), but error messages put the configuration key `named` before the path.
std::string newest_named(const std::string& path, const std::string& named, std::vector<std::string>* notes = nullptr,
                         const OnProgress& on_progress = {});
// Returns the error for a path without a valid checkpoint: the reason for each folder, and what `path` should hold.
// `named` is as in newest_named().
DataError no_valid_checkpoint(const std::string& path, const std::vector<std::string>& notes,
                              const std::string& named = "");

}  // namespace lt::checkpoint
