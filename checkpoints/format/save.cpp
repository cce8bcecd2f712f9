// Saves checkpoints: checks the state and writes each rank's file. commit.cpp then commits the files as a checkpoint.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "checkpoints/format/commit.h"
#include "checkpoints/format/files.h"
#include "checkpoints/format/find.h"
#include "checkpoints/format/folder_lock.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/format/manifest.h"
#include "checkpoints/format/read_ranges.h"
#include "checkpoints/format/retention.h"
#include "checkpoints/format/run_id.h"
#include "checkpoints/format/shard_file.h"
#include "checkpoints/format/transfer.h"
#include "checkpoints/format/verify.h"
#include "comm/value_exchange.h"
#include "device/fault.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/device/phase.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::seconds kPatience{30};  // to wait for the folder's lock

void check_kinds_of(const std::vector<StateKind>& kinds) {
  const auto require = [](bool holds, const std::string& expected) {
    if (!holds) throw UsageError("checkpoint", "kinds: expected " + expected);
  };
  require(!kinds.empty() && kinds[0].name == kMaster && !kinds[0].partial,
          fmt::format("{} of all parameters as the first", kMaster));
  require(kinds.size() <= kMaxKinds, fmt::format("at most {}, found {}", kMaxKinds, kinds.size()));
  for (const StateKind& kind : kinds) {
    require(is_kind_name(kind.name), fmt::format("1 to 32 of a to z, 0 to 9 and _, found '{}'", kind.name));
    require(find_kind(kinds, kind.name) == &kind, fmt::format("each once, found {} twice", kind.name));
    require(is_state_dtype(kind.dtype),
            fmt::format("f32, bf16 or f16, found {} of {}", kind.name, dtype_name(kind.dtype)));
  }
}

void check_input(const ShardMap& shards, const RunState& state) {
  if (state.step < 0) throw UsageError("checkpoint", fmt::format("step: expected 0 or more, found {}", state.step));
  if (!is_run_id(state.run)) throw UsageError("checkpoint", fmt::format("run: expected an id, found '{}'", state.run));
  std::unordered_map<std::string, Size> elements;
  for (const auto& [name, shape] : shards.parameters) {
    // Names become link names in an HDF5 file.
    if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos || name.find('\0') != name.npos) {
      throw UsageError("checkpoint", fmt::format("parameter '{}': expected a name without slashes", name));
    }
    elements.emplace(name, shape.elements());
  }
  check_kinds_of(shards.kinds);
  for (const StateRange& range : shards.owned) {
    const std::string what = to_string(range.kind, range.parameter, range.begin, range.end);
    if (!is_kind_name(range.kind)) {
      throw UsageError("checkpoint", fmt::format("{}: expected a kind of 1 to 32 of a to z, 0 to 9 and _", what));
    }
    const auto found = elements.find(range.parameter);
    if (found == elements.end()) throw UsageError("checkpoint", what + ": expected a parameter of the model");
    if (range.begin < 0 || range.end < range.begin || range.end > found->second) {
      throw UsageError("checkpoint", fmt::format("{}: expected a range of [0, {})", what, found->second));
    }
    if (range.begin == range.end) continue;
    const Tensor& values = range.values;
    const StateKind* const kind = find_kind(shards.kinds, range.kind);
    if (kind == nullptr) throw UsageError("checkpoint", fmt::format("{}: expected a kind of the list of kinds", what));
    const DType expected = kind->dtype;
    // Values narrower than their kind are widened when written.
    const bool fits = values.dtype() == expected || dtype_bytes(values.dtype()) < dtype_bytes(expected);
    if (!fits || !is_state_dtype(values.dtype()) || values.elements() != range.end - range.begin) {
      throw UsageError("checkpoint", fmt::format("{}: expected as many {} values, found {} {}", what,
                                                 dtype_name(expected), values.elements(), dtype_name(values.dtype())));
    }
    if (const Device device = device_of(shards.owned); values.device() != device) {
      throw UsageError("checkpoint", fmt::format("{}: expected values on {}, as of the ranges before, found {}", what,
                                                 to_string(device), to_string(values.device())));
    }
  }
}

std::string size_text(const State& state, const std::string& name, const char* kind) {
  const auto found = state.find(name);
  return found == state.end() ? "none" : fmt::format("{} {}bytes", found->second.size(), kind);
}

void require_same_program_state(const State& ours, const State& theirs) {
  State all = ours;
  all.insert(theirs.begin(), theirs.end());
  for (const auto& [name, value] : all) {
    const auto a = ours.find(name), b = theirs.find(name);
    if (a != ours.end() && b != theirs.end() && a->second == b->second) continue;
    throw DataError("checkpoint",
                    fmt::format("manifest.json: program_state: {}: expected {}, found {}", name,
                                size_text(ours, name, ""), size_text(theirs, name, "other ")),
                    kAnotherRun);
  }
}

// Throws unless the valid checkpoint at `folder` holds this very state, whatever rank count wrote it. This rank
// compares the values that it owns; the root also compares the program's state.
void require_same(const fs::path& folder, const ShardMap& shards, const RunState& state, bool root) {
  const Manifest manifest = read_manifest(folder);
  const auto require = [](const std::string& what, const auto& expected, const auto& found) {
    if (expected == found) return;
    throw DataError("checkpoint", fmt::format("manifest.json: {}: expected {}, found {}", what, expected, found),
                    kAnotherRun);
  };
  require("samples", state.samples, manifest.state.samples);
  require("seed", state.seed, manifest.state.seed);
  require("config_hash", state.config_hash, manifest.state.config_hash);
  if (root) require_same_program_state(state.program, manifest.state.program);
  require("parameters", shards.parameters.size(), manifest.parameters.size());
  for (std::size_t p = 0; p < shards.parameters.size(); ++p) {
    const auto& [name, shape] = shards.parameters[p];
    require(fmt::format("parameter {}", p), name + " " + lt::to_string(shape),
            manifest.parameters[p].name + " " + lt::to_string(manifest.parameters[p].shape));
  }
  std::vector<char> there;
  Transfer on_host, transfer(device_of(shards.owned));
  for (const StateRange& range : shards.owned) {
    if (range.begin == range.end) continue;
    const DType dtype = range.values.dtype();
    const StateKind *const ours = find_kind(shards.kinds, range.kind), *const theirs =
                                                                           find_kind(manifest.kinds, range.kind);
    if (ours != nullptr && theirs != nullptr) {
      require("dtype of " + range.kind, dtype_name(ours->dtype), dtype_name(theirs->dtype));
    }
    there.resize(static_cast<std::size_t>(range.values.bytes()));
    read_ranges(folder, manifest, {{range.parameter, range.kind, range.begin, range.end, there.data(), dtype}},
                on_host);
    const char* found = there.data();
    transfer.for_each_block(range.values, [&](const void* expected, Size bytes) {
      if (std::memcmp(found, expected, static_cast<std::size_t>(bytes)) != 0) {
        throw DataError("checkpoint",
                        fmt::format("{}: expected the values of this run, found others",
                                    to_string(range.kind, range.parameter, range.begin, range.end)),
                        kAnotherRun);
      }
      found += bytes;
    });
  }
}

}  // namespace

std::string save(const std::string& directory, const ShardMap& shards, const RunState& state, const Group& group,
                 const SaveOptions& options) {
  const PhaseScope phase(Phase::save);
  const bool root = group.rank() == 0;
  const fs::path parent = directory, folder = parent / step_name(state.step);
  agree(group, folder, [&] {
    device::fault_point("save-begin");
    check_input(shards, state);
    if (root) require_valid(state.program);
  });
  std::shared_ptr<void> alone;  // held by rank 0 until it has tidied
  bool is_there = false;
  agree(group, fs::absolute(parent), [&] {
    if (!root) return;
    make_folders_durably(parent);
    alone = lock_folder(parent, kPatience);
    const RunFilter runs = filter_of(state.run, options);
    require_no_other_run(directory, runs);
    try {
      remove_leftovers(parent, runs);
    } catch (const fs::filesystem_error&) {  // tidy() tries again, and says why not
    }
    is_there = is_valid_checkpoint(folder);
  });
  if (comm::broadcast_value(group, is_there)) {
    agree(group, folder, [&] {
      require_same(folder, shards, state, root);
      if (root) sync_folder(parent);  // an earlier save may have failed after its rename
    });
    if (root) tidy(parent, state, options);
    return folder.string();
  }
  write_and_commit(parent, shards, state, group, [&](const fs::path& temporary) {
    std::string part;
    agree(group, temporary, [&] {
      if (!fs::is_directory(temporary)) {
        throw DataError("checkpoint", shard_name(group.rank()) + ": rank 0 made the folder, this rank has none",
                        kShared);
      }
      part = file_entry_text(write_shard(temporary, {group.rank(), group.size(), state.step}, shards));
    });
    return group.all_gather_bytes(part);
  });
  if (root) tidy(parent, state, options);
  return folder.string();
}

}  // namespace lt::checkpoint
