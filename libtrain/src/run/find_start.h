// Decides once from which state a run starts or continues, and loads it.
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
  std::string weights;                   // origin of the initial or base weights; empty: drawn, or neither was loaded
  std::string base, base_digest;         // as in checkpoint::RunState
  std::vector<std::string> passed_over;  // the reasons why newer checkpoints were skipped
};

// Loads the state from which the run continues into the engine. `data_files`: the training files. With data.epochs,
// sets the number of steps in `resolved`. Reads `folder` of rank 0 only, and sets its timeline and base. All ranks must
// call it. Throws UsageError and DataError.
FoundStart find_start(Resolved& resolved, const Group& control, Engine& engine, RunFolder& folder,
                      const std::vector<checkpoint::DataFile>& data_files);

}  // namespace lt::run
