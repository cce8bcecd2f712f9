// The files that describe a run, written to its folder before its first step: run.json, config.toml, env.json,
// algorithms.txt, arena.svg.
#pragma once

#include <string>
#include <vector>

#include "libtrain/comm/world.h"
#include "libtrain/config/resolved.h"
#include "libtrain/memory/memory_plan.h"
#include "run/algorithms.h"
#include "save/run_identity.h"

namespace lt::run {

// Call it before any other file is written to the folder, because a folder with files but without run.json is not
// treated as a run's. Returns false if run.json of an earlier start could not be replaced.
bool write_run_json(const std::string& run_dir, const saver::RunIdentity& identity);
// Writes config.toml, env.json, the table of matmul algorithms, if there is one, to algorithms.txt, and arena.svg for
// the training step among `plans`. Both functions write each file under a temporary name and rename it. They throw
// DataError, but a continued run keeps a file that cannot be replaced and prints a warning.
void write_run_files(const Resolved& resolved, const saver::RunIdentity& identity, const World& world,
                     const Algorithms& algorithms, const std::vector<const MemoryPlan*>& plans);

// Return what the last start wrote to env.json: the threads of a rank, and its GPUs, libraries and table. Return 0 and
// empty if the file is missing or unreadable.
Size threads_of_last_start(const std::string& run_dir);
checkpoint::ComputedBy computed_by_of_last_start(const std::string& run_dir);

// Adds notices to env.json. Call it on rank 0. Failures are ignored, because the log has the notices too.
void add_notices(const std::string& run_dir, const std::vector<std::string>& notices);

}  // namespace lt::run
