// Identifies the run in a folder. Its id is drawn when the run begins and kept in <run.dir>/run.json and in every
// checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoints/format/find.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/config/config.h"

namespace lt::saver {

// The location of a folder: its canonical path and its inode. The inode stays when the folder is moved within a file
// system.
struct FolderPlace {
  std::string path;  // empty: unknown
  std::uint64_t inode = 0;
};

// A run whose folder was copied.
struct CopiedRun {
  std::string id;
  std::string checkpoints;  // the canonical path of its checkpoint.dir
};

struct RunIdentity {
  std::string id;
  std::string parent;  // id of the run whose checkpoint it began from; empty: none, or unknown
  std::string began;   // UTC, "20240501T165500Z"
  // 16 hexadecimal digits, drawn by each start that does not continue from memory, and stored in copies in memory.
  // Empty if there is none.
  std::string timeline;
  std::string data;  // the digest of its training files (run/same_data.h); empty: unknown
  // For adapters: the checkpoint or folder of the base weights (empty: the initial weights), and their digest. Stored
  // here because copies in memory do not name them.
  std::string base = {}, base_digest = {};
  // The step's folder that checkpoint.resume named. The run begins there again as long as it has saved nothing. Empty
  // if there is none.
  std::string begun_from = {};
  // The runs of which this folder is a copy, oldest first. Their checkpoints that were copied with it belong to this
  // run.
  std::vector<CopiedRun> copied_from = {};
  std::string checkpoints = {};  // the canonical path of checkpoint.dir at the last start; empty: unknown
  FolderPlace folder = {};       // location of run.dir at the last start
  bool is_new = false;           // true: this start has drawn the id
};

// Reads run.json of the folder. The id is empty if the file is missing or invalid. For a copied folder, returns a new
// identity that refers to the copied one. A folder whose path has changed since the last start is a copy if its inode
// has changed too, or if the folder at the old path still has the id; otherwise it was moved. Adjusts `begun_from` if
// that folder was moved or copied together with this one. Throws DataError if the system does not let this process read
// the file.
RunIdentity read_identity(const std::string& run_dir);
RunIdentity new_identity(const std::string& parent = "");
// Returns the identity in run.json. Without that file, it returns the identity of the checkpoints in
// <run.dir>/checkpoints if they all belong to one run, otherwise a new identity.
RunIdentity identity_of(const std::string& run_dir, const std::string& checkpoint_dir);
// Writes run.json with the folder's path and inode durably, or leaves the old file as it was. Throws DataError.
void write_identity(const std::string& run_dir, const RunIdentity& identity);

// Selects the checkpoints of checkpoint.dir that belong to the run. They include the checkpoints of the runs of which
// it is a copy, unless those runs save there.
checkpoint::RunFilter checkpoints_of(const std::string& checkpoint_dir, const RunIdentity& identity);
// Returns the options with which the run's checkpoints are saved and kept.
checkpoint::SaveOptions save_options(const CheckpointConfig& checkpoint, const RunIdentity& identity);

}  // namespace lt::saver
