// Identifies the run in a folder. Its id is drawn when the run begins and kept in <run.dir>/run.json and in every
// checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/config/config.h"

namespace lt::saver {

// Where a folder was: its canonical path, and its inode, which it keeps when it is moved within a file system.
struct FolderPlace {
  std::string path;  // empty: unknown
  std::uint64_t inode = 0;
};

// The run of a folder that was copied.
struct CopiedRun {
  std::string id;
  std::string checkpoints;  // the canonical path of its checkpoint.dir
};

struct RunIdentity {
  std::string id;
  std::string parent;  // id of the run whose checkpoint it began from; empty: none, or unknown
  std::string began;   // UTC, "20240501T165500Z"
  // 16 hexadecimal digits, drawn by each start that does not continue from memory and kept in copies in memory. Empty:
  // none.
  std::string timeline;
  std::string data;  // the digest of its training files (run/same_data.h); empty: unknown
  // A run of adapters names its base, which copies in memory do not: the checkpoint or folder (empty: the initial
  // weights), and the digest of the weights.
  std::string base = {}, base_digest = {};
  // The step's folder that checkpoint.resume named, from which the run begins again while it has saved nothing; empty:
  // none.
  std::string begun_from = {};
  // The runs that this folder was before it was copied, oldest first. Their checkpoints that were copied with it are
  // its own.
  std::vector<CopiedRun> copied_from = {};
  std::string checkpoints = {};  // the canonical path of checkpoint.dir at the last start; empty: unknown
  FolderPlace folder = {};       // of run.dir, as the last start wrote it
  bool is_new = false;           // drawn by this start
};

// Reads run.json of that folder. The id is empty if the file is missing or holds what no run writes. A folder that is a
// copy has a new identity, which remembers the one that was copied. A folder at another path than at the last start is
// a copy unless it has the inode of then, as after moving or renaming, and also if the folder at the path of then has
// the id. `begun_from` names the place beside the folder if both were moved or copied. Throws DataError if the system
// does not let this process read the file.
RunIdentity read_identity(const std::string& run_dir);
RunIdentity new_identity(const std::string& parent = "");
// Returns the identity in run.json. Without that file, it returns the identity of the checkpoints in
// <run.dir>/checkpoints if they all belong to one run, otherwise a new identity.
RunIdentity identity_of(const std::string& run_dir, const std::string& checkpoint_dir);
// Writes run.json with the folder's path and inode durably, or leaves the old file as it was. Throws DataError.
void write_identity(const std::string& run_dir, const RunIdentity& identity);

// Selects the checkpoints of checkpoint.dir that belong to the run. These include those of version 1, which have no id,
// if the folder is <run.dir>/checkpoints, and those of the runs that it is a copy of, unless they save there.
checkpoint::RunFilter checkpoints_of(const std::string& run_dir, const std::string& checkpoint_dir,
                                     const RunIdentity& identity);
// How the run's checkpoints are saved and kept.
checkpoint::SaveOptions save_options(const std::string& run_dir, const CheckpointConfig& checkpoint,
                                     const RunIdentity& identity);

}  // namespace lt::saver
