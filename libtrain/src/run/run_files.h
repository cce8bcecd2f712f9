// The files of a run's folder that say what the run is, written before its first step.
#pragma once

#include <string>
#include <vector>

#include "libtrain/comm/world.h"
#include "libtrain/config/resolved.h"
#include "libtrain/memory/memory_plan.h"
#include "save/run_identity.h"

namespace lt::run {

// Call it before any other file is written to the folder: a folder with files and no run.json is no run's. Returns
// false if the file of an earlier start stays.
bool write_run_json(const std::string& run_dir, const saver::RunIdentity& identity);
// Writes config.toml, env.json and, for the training step among `plans`, arena.svg. Like run.json, each file is written
// under a temporary name and renamed. Both throw DataError, but a continued run keeps a file that cannot be replaced
// and prints a warning.
void write_run_files(const Resolved& resolved, const saver::RunIdentity& identity, const World& world,
                     const std::string& command, const std::vector<const MemoryPlan*>& plans);

// Adds notices to env.json. Call it on rank 0. Failures are ignored, because the log has the notices too.
void add_notices(const std::string& run_dir, const std::vector<std::string>& notices);

}  // namespace lt::run
