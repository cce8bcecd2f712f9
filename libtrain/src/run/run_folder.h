// A run's folder: decides whether a run may continue in it, and from which checkpoints. run_files.h writes its files.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/config/resolved.h"
#include "run/run_start.h"
#include "save/run_identity.h"

namespace lt::run {

constexpr std::chrono::seconds kFolderPatience{30};  // how long to wait for another run in the folder to end

// run.dir as a start finds it. Only rank 0 reads the folder; other ranks have only id, parent and timeline of
// `identity`.
struct RunFolder {
  saver::RunIdentity identity;
  std::vector<checkpoint::Listing> candidates;  // checkpoints that the run may continue from, newest first
  bool moves_aside = false;                     // true: it holds an old run that must be moved aside
  bool same_files = false;                      // true: the training files have the bytes of the run's earlier files
  std::string little_space;                     // warning about the disk of checkpoint.dir; otherwise empty
  std::string starting_over;                    // message if an earlier run left no valid checkpoint; otherwise empty
  std::shared_ptr<void> lock;                   // holds the folder until it is released or the process ends
};

// True if a start in the folder would continue from a checkpoint on disk. Changes nothing.
bool goes_on(const Resolved& resolved);

// Call the functions below on rank 0 only. Nothing is written or moved before every check has passed.

// Finds the checkpoints that the run may continue from, by checkpoint.resume and run.force. Locks the folder, and
// changes nothing else. `files`: the training files of this start. Throws UsageError if another run still uses the
// folder after `patience`, or if checkpoint.dir holds another run's checkpoints.
RunFolder examine_run_folder(const Resolved& resolved, const std::vector<checkpoint::DataFile>& files,
                             std::chrono::milliseconds patience = kFolderPatience);
// For a start that can load no checkpoint, because it would start over. Throws UsageError if the run has a valid
// checkpoint outside checkpoint.dir: in <run.dir>/checkpoints, or in the folder where an earlier start saved.
void require_no_other_checkpoints(const Resolved& resolved, const saver::RunIdentity& identity);
// For a start that can load no checkpoint, because starting over would move them aside. Throws DataError that names the
// file if the system does not let this process read one of the run's checkpoints.
void require_readable_checkpoints(const Resolved& resolved, const RunFolder& folder);
// Opens or creates resolved.run.dir after the state was loaded. `checkpoint_bytes`: the size of a checkpoint. Throws
// UsageError and DataError, also if checkpoint.dir is not writable or has not enough free space for a first checkpoint.
void open_run_folder(const Resolved& resolved, RunFolder& folder, const Start& start, Size checkpoint_bytes);

// Removes the leftovers of the run's killed saves from checkpoint.dir, as a save does when it begins. Ignores failures.
void remove_leftovers_of(const Resolved& resolved, const saver::RunIdentity& identity);

}  // namespace lt::run
