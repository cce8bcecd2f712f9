// A run's folder: what stands in it before the first step, whether a run may go on in it, and from where.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/comm/world.h"
#include "libtrain/memory/memory_plan.h"
#include "libtrain/train/config.h"
#include "train/run_identity.h"

namespace lt {

constexpr std::chrono::seconds kFolderPatience{30};  // for the end of another run in the folder

struct RunStart {
  RunIdentity identity;
  std::vector<checkpoint::Listing> candidates;  // what the run may go on from, newest first
  Size newest_on_disk = -1;                     // its newest valid checkpoint's step, known to all ranks; -1: none
  checkpoint::Loaded checkpoint;                // what it goes on from; no folder: not from the disk
  Size memory_step = 0;                         // of the in-memory checkpoint that it goes on from; 0: none
  std::string weights;                          // the step folder that model.from took; empty: none
  std::vector<std::string> notes;               // why newer checkpoints were passed over
  bool moves_aside = false;                     // the folder holds an old run
  std::string starting_over;   // where a run has been and left no valid checkpoint: a line that says so
  bool complete = false;       // the checkpoint is of the last step, or a later one
  std::shared_ptr<void> lock;  // of the folder, until the process ends or lets go
};

// Both on rank 0 alone. Nothing is written or moved before everything was checked.
// What the run may go on from, by checkpoint.resume and run.force; changes nothing. One run at a time has the folder:
// UsageError where another one is at work in it after `patience`, or where checkpoint.dir holds another run's
// checkpoints.
RunStart examine_run_folder(const Config& resolved, std::chrono::milliseconds patience = kFolderPatience);
// Opens or creates resolved.run.dir once the state was loaded. Throws UsageError and DataError, also where none
// of checkpoint.resume=FOLDER was whole and where checkpoint.dir cannot be written to.
void open_run_folder(const Config& resolved, RunStart& start);

// Writes run.json, config.toml, env.json and, of the training step among `plans`, arena.svg, each beside and
// renamed. Throws DataError; a run that goes on keeps a file that cannot be replaced, with a warning.
void write_run_files(const Config& resolved, const RunIdentity& identity, const World& world,
                     const std::string& command, const std::vector<const MemoryPlan*>& plans);

// Adds notices to env.json; call on rank 0. Failure is ignored, since the log has them too.
void add_notices(const std::string& run_dir, const std::vector<std::string>& notices);

}  // namespace lt
