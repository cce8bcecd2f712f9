// Decides, once, from what a run goes on, and loads it.
#pragma once

#include <string>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/config/resolved.h"
#include "libtrain/parallel/engine.h"
#include "run/run_folder.h"
#include "run/run_start.h"

namespace lt::run {

struct FoundStart {
  Start start;
  std::string weights;                   // where the initial or base weights are from; empty: drawn, or none
  std::string base, base_digest;         // as in checkpoint::RunState
  std::vector<std::string> passed_over;  // why newer checkpoints were skipped
};

// Leaves the engine in the state from which the run goes on. `data_files` are the training files. With data.epochs,
// resolved.steps() follows from the state. All ranks must call it; rank 0's `folder` counts, and gets the run's
// timeline and base. Throws UsageError and DataError.
FoundStart find_start(Resolved& resolved, const Group& control, Engine& engine, RunFolder& folder,
                      const std::vector<checkpoint::DataFile>& data_files);

}  // namespace lt::run
