// The files that describe a run, written to its folder before its first step: run.json, config.toml, env.json,
// arena.svg.
#pragma once

#include <string>
#include <vector>

#include "libtrain/comm/world.h"
#include "libtrain/config/resolved.h"
#include "libtrain/memory/memory_plan.h"
#include "save/run_identity.h"

namespace lt::run {

// Call it before any other file is written to the folder, because a folder with files but without run.json is not
// treated as a run's. Returns false if run.json of an earlier start could not be replaced.
bool write_run_json(const std::string& run_dir, const saver::RunIdentity& identity);
// Writes config.toml, env.json and, for the training step among `plans`, arena.svg. Both functions write each file
// under a temporary name and rename it. They throw DataError, but a continued run keeps a file that cannot be replaced
// and prints a warning.
void write_run_files(const Resolved& resolved, const saver::RunIdentity& identity, const World& world,
                     const std::vector<const MemoryPlan*>& plans);

// Returns the threads of a rank in the last start that wrote env.json; 0 if the file is missing or unreadable.
Size threads_of_last_start(const std::string& run_dir);

// Adds notices to env.json. Call it on rank 0. Failures are ignored, because the log has the notices too.
void add_notices(const std::string& run_dir, const std::vector<std::string>& notices);

}  // namespace lt::run
