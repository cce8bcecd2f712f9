// Makes files a checkpoint. The order of operations makes it whole or absent: files durable, then the manifest durable,
// then the rename that commits, then the parent folder durable. A failure before the rename fails on all ranks and
// leaves earlier checkpoints as they were.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoints/format/files.h"
#include "libtrain/checkpoints/checkpoint.h"

namespace lt::checkpoint {

inline constexpr const char* kAnotherRun =
    "another state of this step exists there; choose another folder for this one";
inline constexpr const char* kShared =
    "all ranks must see the same checkpoint folder: put it on a file system they share";

// collectively() with within(): the DataErrors of `body` start with the folder.
template <class Body>
void agree(const Group& group, const std::filesystem::path& folder, Body&& body) {
  collectively(group, [&] { within(folder, body); });
}

bool is_valid_checkpoint(const std::filesystem::path& folder);

// Lets `write` put the files into a temporary folder, and commits it as step `state.step` of `parent`. `write` is
// called on all ranks and returns the manifest's entries of all files (file_entry_text()). All ranks of `group` must
// call it. Throws DataError on all ranks alike.
void write_and_commit(const std::filesystem::path& parent, const ShardMap& shards, const RunState& state,
                      const Group& group,
                      const std::function<std::vector<std::string>(const std::filesystem::path& temporary)>& write);

// Called on rank 0 after a commit: LATEST, and the removal of checkpoints that need not stay. Failures are printed and
// not thrown, because they do not affect the new checkpoint.
void tidy(const std::filesystem::path& parent, const RunState& state, const SaveOptions& options);

}  // namespace lt::checkpoint
