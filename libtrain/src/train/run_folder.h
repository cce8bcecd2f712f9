// A run's folder: what stands in it before the first step, whether a run may go on in it, and from where.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libtrain/config.h"
#include "libtrain/memory_program.h"
#include "libtrain/world.h"
#include "train/run_identity.h"

namespace lt {

struct RunStart {
  RunIdentity identity;
  std::string checkpoint;      // the step folder to go on from; empty: from the initial weights
  std::string weights;         // the step folder that model.from took; empty: none
  std::string notes;           // why newer checkpoints were passed over; lines
  std::string starting_over;   // where a run has been and left no valid checkpoint: a line that says so
  bool complete = false;       // the checkpoint is of the last step, or a later one
  std::shared_ptr<void> lock;  // of the folder, until the process ends or lets go
};

// Opens or creates resolved.run.dir by checkpoint.resume and run.force; on rank 0 alone. Nothing is written or moved
// before everything was checked, that checkpoint.dir can be written to and holds no other run's checkpoints included.
// One run at a time has the folder: UsageError where another one is at work in it. Throws UsageError and DataError.
RunStart open_run_folder(const Config& resolved);

// Writes run.json, config.toml, env.json and, of the training step among `programs`, arena.svg, each beside and
// renamed.
void write_run_files(const Config& resolved, const RunIdentity& identity, const World& world,
                     const std::string& command, const std::vector<const MemoryProgram*>& programs);

}  // namespace lt
