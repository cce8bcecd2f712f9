// Which run a folder holds: its id, drawn when it begins and kept in <run.dir>/run.json. Checkpoints carry it.
#pragma once

#include <string>

#include "libtrain/checkpoint.h"
#include "libtrain/config.h"

namespace lt {

struct RunIdentity {
  std::string id;
  std::string parent;   // of the run whose checkpoint it began from; empty: none
  std::string began;    // UTC, "20240501T165500Z"
  bool is_new = false;  // drawn now
};

RunIdentity new_identity(const std::string& parent = "");
// That of run.json. Where there is none, that of the checkpoints in <run.dir>/checkpoints, if they all are of one run;
// else a new one.
RunIdentity identity_of(const Config& resolved);
// Durably, or as it was. Throws DataError.
void write_identity(const std::string& run_dir, const RunIdentity& identity);

// Which checkpoints of checkpoint.dir are the run's. Those of version 1, without an id, are where the folder is
// <run.dir>/checkpoints.
checkpoint::Whose checkpoints_of(const Config& resolved, const RunIdentity& identity);
// Throws UsageError, naming both, where checkpoint.dir holds valid checkpoints of another run.
void require_no_other_run(const Config& resolved, const RunIdentity& identity);
// How the run's checkpoints are saved and kept.
checkpoint::SaveOptions save_options(const Config& resolved);

}  // namespace lt
