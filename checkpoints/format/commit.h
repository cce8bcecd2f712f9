// Commits files as a checkpoint, which is then whole or absent. The order is: sync the files, sync the manifest, rename
// the folder (the commit), sync the parent folder. A failure before the rename fails on all ranks and does not change
// earlier checkpoints.
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

// Like collectively(), but the messages of `body`'s DataErrors start with the folder, as in within().
template <class Body>
void agree(const Group& group, const std::filesystem::path& folder, Body&& body) {
  collectively(group, [&] { within(folder, body); });
}

bool is_valid_checkpoint(const std::filesystem::path& folder);

// Calls `write`, which writes the files into a temporary folder, and commits the folder as step `state.step` of
// `parent`. `write` is called on all ranks and returns the manifest entries of all files (file_entry_text()). All ranks
// of `group` must call it. Throws DataError on all ranks alike.
void write_and_commit(const std::filesystem::path& parent, const ShardMap& shards, const RunState& state,
                      const Group& group,
                      const std::function<std::vector<std::string>(const std::filesystem::path& temporary)>& write);

// Updates LATEST and removes superfluous checkpoints. Rank 0 calls it after a commit. Prints failures instead of
// throwing them, because they do not affect the new checkpoint.
void tidy(const std::filesystem::path& parent, const RunState& state, const SaveOptions& options);

}  // namespace lt::checkpoint
