// Rank 0 writes the manifest and renames the folder.
#include "checkpoints/format/commit.h"

#include <fmt/format.h>

#include <cstdio>

#include "checkpoints/format/files.h"
#include "checkpoints/format/known_folders.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/format/manifest.h"
#include "checkpoints/format/retention.h"
#include "checkpoints/format/run_id.h"
#include "checkpoints/format/verify.h"
#include "device/fault.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;

bool is_valid_checkpoint(const fs::path& folder) {
  return fs::symlink_status(folder).type() != fs::file_type::not_found && problems_of(folder, true).empty();
}

namespace {

// Throws DataError unless the files have the sizes that the manifest names.
void require_files(const fs::path& folder, const Manifest& manifest) {
  for (const FileEntry& file : manifest.files) {
    const Size bytes = file_bytes(folder / file.name);
    if (bytes == file.bytes) continue;
    throw DataError("checkpoint", fmt::format("{}: expected {} bytes, found {}", file.name, file.bytes, bytes),
                    kShared);
  }
}

// Called on rank 0: writes the manifest and renames the folder, which makes the checkpoint exist.
void commit(const fs::path& temporary, const fs::path& folder, const ShardMap& shards, const RunState& state,
            const std::vector<std::string>& parts) {
  Manifest manifest{state, static_cast<int>(parts.size()), shards.parameters, {}, {}};
  for (const std::string& part : parts) manifest.files.push_back(parse_file_entry(part));
  manifest.kinds = kinds_that_occur(shards.kinds, manifest.files);
  set_dtypes(manifest.files, manifest.kinds);
  check_consistent(manifest);
  require_files(temporary, manifest);
  if (is_valid_checkpoint(folder)) {
    throw DataError("checkpoint", "expected none, found a valid one that came while this one was written", kAnotherRun);
  }
  const std::string text = manifest_text(manifest);
  device::fault_point("save-manifest");
  write_durably(temporary / kManifestName, text);
  if (read_text(temporary / kManifestName, kMaxManifestBytes) != text) {
    throw DataError("checkpoint", "manifest.json: expected what was written, read back other bytes");
  }
  sync_folder(temporary);
  if (fs::symlink_status(folder).type() != fs::file_type::not_found) move_aside(folder);
  device::fault_point("save-rename");
  rename_durably(temporary, folder);
  require_files(folder, manifest);  // without a lock, another start of the run may have taken them for leftovers
  remember_whole(folder, true);     // each rank has read back its file
}

}  // namespace

void write_and_commit(const fs::path& parent, const ShardMap& shards, const RunState& state, const Group& group,
                      const std::function<std::vector<std::string>(const fs::path&)>& write) {
  const bool root = group.rank() == 0;
  const fs::path folder = parent / step_name(state.step);
  const fs::path temporary =
      parent / temporary_name(step_name(state.step), group.broadcast_bytes(attempt_of(state.run), 0));
  try {
    agree(group, folder, [&] {
      if (root) make_folders_durably(temporary);
    });
    const std::vector<std::string> parts = write(temporary);
    agree(group, temporary, [&] {
      if (root) commit(temporary, folder, shards, state, parts);
    });
  } catch (...) {
    try {
      if (root) remove_tree(temporary);
    } catch (const fs::filesystem_error&) {  // the next save tries again
    }
    throw;
  }
}

void tidy(const fs::path& parent, const RunState& state, const SaveOptions& options) {
  const std::string name = step_name(state.step);
  const auto attempt = [](auto&& body) {
    try {
      body();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "warning: [checkpoint] %s\n", e.what());
    }
  };
  attempt([&] { write_latest(parent, name, attempt_of(state.run)); });
  attempt([&] {
    device::fault_point("save-gc");
    remove_superfluous(parent, name, state.run, options);
    remove_leftovers(parent, filter_of(state.run, options));
  });
}

}  // namespace lt::checkpoint
