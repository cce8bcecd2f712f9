// A run's folder: whether a run may continue in it, and from which state. run_files.h writes its files.
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

// Run.dir as a start finds it. Only rank 0 looks; the others know the id, parent and timeline of `identity`.
struct RunFolder {
  saver::RunIdentity identity;
  std::vector<checkpoint::Listing> candidates;  // checkpoints that the run may continue from, newest first
  bool moves_aside = false;                     // it holds an old run
  bool same_files = false;                      // the training files are known to have the bytes of the run's
  std::string little_room;                      // warning about the disk of checkpoint.dir; otherwise empty
  std::string starting_over;                    // message if an earlier run left no valid checkpoint; otherwise empty
  std::shared_ptr<void> lock;                   // holds the folder until it is released or the process ends
};

// Whether a start in the folder goes on from a checkpoint on disk. Changes nothing.
bool goes_on(const Resolved& resolved);

// Call these two on rank 0 only. Nothing is written or moved before every check has passed.
// Finds the state that the run may continue from, by checkpoint.resume and run.force. Locks the folder, and otherwise
// changes nothing. Throws UsageError if another run still uses the folder after `patience`, or if checkpoint.dir holds
// another run's checkpoints.
// `files` are the training files of this start.
RunFolder examine_run_folder(const Resolved& resolved, const std::vector<checkpoint::DataFile>& files,
                             std::chrono::milliseconds patience = kFolderPatience);
// Throws UsageError if the run has a valid checkpoint in <run.dir>/checkpoints or where an earlier start saved, and
// checkpoint.dir is another folder. For a start that can load none: it would start over beside that one.
void require_no_other_checkpoints(const Resolved& resolved, const saver::RunIdentity& identity);
// Throws DataError, which names the file, if the system does not let this process read one of the run's checkpoints.
// For a start that can load none of them: starting over would move them aside.
void require_readable_checkpoints(const Resolved& resolved, const RunFolder& folder);
// Opens or creates resolved.run.dir after the state was loaded. A checkpoint has `checkpoint_bytes`. Throws UsageError
// and DataError, also if checkpoint.dir is not writable or has no room for a first one.
void open_run_folder(const Resolved& resolved, RunFolder& folder, const Start& start, Size checkpoint_bytes);

// Removes from checkpoint.dir what a kill in a save of the run left, as a save does when it begins. Call it on rank 0.
// Failures are ignored.
void remove_leftovers_of(const Resolved& resolved, const saver::RunIdentity& identity);

}  // namespace lt::run
