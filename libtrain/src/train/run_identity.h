// Identifies the run in a folder. Its id is drawn when the run begins and kept in <run.dir>/run.json and in every
// checkpoint.
#pragma once

#include <string>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/train/config.h"

namespace lt {

struct RunIdentity {
  std::string id;
  std::string parent;  // id of the run whose checkpoint it began from; empty: none, or unknown
  std::string began;   // UTC, "20240501T165500Z"
  // 16 hexadecimal digits, drawn by each start that does not continue from memory and kept in copies in memory. Empty:
  // none.
  std::string timeline;
  std::string data;  // the digest of its training files (train/same_data.h); empty: unknown
  // A run of adapters names its base, which copies in memory do not: the checkpoint or folder (empty: the initial
  // weights), and the digest of the weights.
  std::string base = {}, base_digest = {};
  // The step's folder that checkpoint.resume named, from which the run begins again while it has saved nothing; empty:
  // none.
  std::string begun_from = {};
  bool is_new = false;  // drawn by this start
};

// Reads run.json of that folder. The id is empty if the file is missing or holds what no run writes. Throws DataError
// if the system does not let this process read it.
RunIdentity read_identity(const std::string& run_dir);
RunIdentity new_identity(const std::string& parent = "");
// Returns the identity in run.json. Without that file, it returns the identity of the checkpoints in
// <run.dir>/checkpoints if they all belong to one run, otherwise a new identity.
RunIdentity identity_of(const Config& resolved);
// Writes run.json durably, or leaves the old file as it was. Throws DataError.
void write_identity(const std::string& run_dir, const RunIdentity& identity);

// Selects the checkpoints of checkpoint.dir that belong to the run. Those of version 1, which have no id, belong to it
// if the folder is <run.dir>/checkpoints.
checkpoint::RunFilter checkpoints_of(const Config& resolved, const RunIdentity& identity);
// How the run's checkpoints are saved and kept.
checkpoint::SaveOptions save_options(const Config& resolved);

}  // namespace lt
