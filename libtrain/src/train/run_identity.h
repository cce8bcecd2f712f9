// Which run a folder holds: its id, drawn when it begins and kept in <run.dir>/run.json. Checkpoints carry it.
#pragma once

#include <string>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/train/config.h"

namespace lt {

struct RunIdentity {
  std::string id;
  std::string parent;  // of the run whose checkpoint it began from; empty: none
  std::string began;   // UTC, "20240501T165500Z"
  // 16 hexadecimal digits, drawn by each start that does not go on from memory; copies in memory carry it. Empty: none.
  std::string timeline;
  bool is_new = false;  // drawn now
};

// What run.json of that folder says; no id where there is none. An unreadable file counts as missing.
RunIdentity read_identity(const std::string& run_dir);
RunIdentity new_identity(const std::string& parent = "");
// That of run.json. Where there is none, that of the checkpoints in <run.dir>/checkpoints, if they all are of one run;
// else a new one.
RunIdentity identity_of(const Config& resolved);
// Durably, or as it was. Throws DataError.
void write_identity(const std::string& run_dir, const RunIdentity& identity);

// Which checkpoints of checkpoint.dir are the run's. Those of version 1, without an id, are where the folder is
// <run.dir>/checkpoints.
checkpoint::RunFilter checkpoints_of(const Config& resolved, const RunIdentity& identity);
// How the run's checkpoints are saved and kept.
checkpoint::SaveOptions save_options(const Config& resolved);

}  // namespace lt
