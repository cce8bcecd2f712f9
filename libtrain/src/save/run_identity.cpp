// Reads and writes a run's identity, and selects the run's own checkpoints.
#include "save/run_identity.h"

#include <fmt/format.h>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "checkpoints/format/find.h"
#include "checkpoints/format/run_id.h"
#include "config/config_schema.h"
#include "io/file.h"
#include "io/json_depth.h"
#include "io/paths.h"
#include "io/whole_file.h"
#include "libtrain/error.h"

namespace lt::saver {
namespace {

namespace fs = std::filesystem;

std::string time_of(const std::string& id) { return id.substr(0, id.find('-')); }

bool keeps_its_checkpoints(const std::string& run_dir, const std::string& checkpoint_dir) {
  return io::canonical_path(checkpoint_dir) == io::canonical_path(config::own_checkpoints(run_dir));
}

constexpr std::size_t kMostBytes = 1 << 18;  // size limit of run.json, which may name some paths

FolderPlace place_of(const std::string& folder) {
  std::error_code unknown;
  struct stat status {};
  const bool found = ::stat(folder.c_str(), &status) == 0;
  return {fs::canonical(folder, unknown).string(), found ? status.st_ino : 0};
}

// A file that write_identity() cannot have written counts as missing: id and parent go into every manifest, and invalid
// ones would make the manifests unreadable. One that the system does not let this process read may be the run's.
RunIdentity parse_identity(const std::string& run_dir) {
  const io::FileText file = io::read_file(run_dir + "/run.json", true, kMostBytes);
  if (file.error != 0 && file.error != ENOENT && file.error != ENOTDIR) {
    throw DataError("record", fmt::format("{}/run.json: expected a readable file, found: {}", run_dir, file.problem));
  }
  if (!file.problem.empty() || io::json_depth(file.text) > io::kMaxJsonDepth) return {};
  const auto json = nlohmann::json::parse(file.text, nullptr, false);
  if (!json.is_object()) return {};
  const auto field_of = [](const nlohmann::json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const auto field = [&](const char* key) { return field_of(json, key); };
  std::vector<CopiedRun> copied_from;
  if (const auto found = json.find("copied_from"); found != json.end() && found->is_array()) {
    for (const auto& run : *found) copied_from.push_back({field_of(run, "id"), field_of(run, "checkpoints")});
  }
  RunIdentity identity{.id = field("id"),
                       .parent = field("parent"),
                       .began = field("began"),
                       .timeline = field("timeline"),
                       .data = field("data"),
                       .base = field("base"),
                       .base_digest = field("base_digest"),
                       .begun_from = field("begun_from"),
                       .copied_from = copied_from,
                       .checkpoints = field("checkpoints")};
  const auto is_empty_or_id = [](const std::string& text) { return text.empty() || checkpoint::is_run_id(text); };
  identity.folder.path = field("folder");
  if (identity.folder.path.empty() || !is_empty_or_id(identity.id) || !is_empty_or_id(identity.parent) ||
      !is_empty_or_id(identity.began) || !is_empty_or_id(identity.timeline) || !is_empty_or_id(identity.data) ||
      !std::ranges::all_of(copied_from, checkpoint::is_run_id, &CopiedRun::id)) {
    return {};
  }
  const auto inode = json.find("inode");
  const bool has_inode = inode != json.end() && inode->is_number_unsigned();
  if (has_inode) identity.folder.inode = inode->get<std::uint64_t>();
  return identity;
}

bool is_copy(const std::string& run_dir, const RunIdentity& kept) {
  const FolderPlace here = place_of(run_dir);
  const std::string& there = kept.folder.path;
  std::error_code unknown;
  if (here.path == there || fs::equivalent(there, run_dir, unknown)) return false;
  return here.inode != kept.folder.inode || parse_identity(there).id == kept.id;
}

// A run of its own, which goes on from what the folder holds.
RunIdentity identity_of_copy(const RunIdentity& original) {
  RunIdentity copy = original;
  copy.id = checkpoint::draw_run_id(), copy.began = time_of(copy.id), copy.is_new = true;
  copy.parent = original.id, copy.timeline.clear();
  copy.copied_from.push_back({original.id, original.checkpoints});
  return copy;
}

// Where a path is now that was at `path` when the run's folder was at `there`, if it is still beside the folder.
std::string moved_with(const std::string& run_dir, const std::string& there, const std::string& path) {
  if (path.empty() || there.empty()) return path;
  const fs::path here = place_of(run_dir).path;
  const std::string beside = io::moved_path(path, there, here);
  std::error_code unknown;
  return here != there && fs::exists(beside, unknown) ? beside : path;
}

}  // namespace

RunIdentity read_identity(const std::string& run_dir) {
  RunIdentity kept = parse_identity(run_dir);
  if (kept.id.empty()) return kept;
  kept.begun_from = moved_with(run_dir, kept.folder.path, kept.begun_from);
  return is_copy(run_dir, kept) ? identity_of_copy(kept) : kept;
}

RunIdentity new_identity(const std::string& parent) {
  const std::string id = checkpoint::draw_run_id();
  return {.id = id, .parent = parent, .began = time_of(id), .timeline = "", .data = "", .is_new = true};
}

RunIdentity identity_of(const std::string& run_dir, const std::string& checkpoint_dir) {
  const RunIdentity kept = read_identity(run_dir);
  if (!kept.id.empty()) return kept;
  std::set<std::string> ids;
  std::string newest;
  if (keeps_its_checkpoints(run_dir, checkpoint_dir) && fs::exists(checkpoint_dir)) {
    for (const checkpoint::Listing& entry : checkpoint::saved_in(checkpoint_dir)) {
      if (!entry.run.empty()) ids.insert(entry.run), newest = entry.path;
    }
  }
  if (ids.size() != 1) return new_identity();
  const std::string& id = *ids.begin();
  return {.id = id, .parent = checkpoint::read_state(newest).parent, .began = time_of(id), .timeline = "", .data = ""};
}

void write_identity(const std::string& run_dir, const RunIdentity& identity) {
  nlohmann::ordered_json json = {
      {"id", identity.id}, {"parent", identity.parent}, {"began", identity.began}, {"timeline", identity.timeline}};
  if (!identity.data.empty()) json["data"] = identity.data;
  if (!identity.base_digest.empty()) json["base"] = identity.base, json["base_digest"] = identity.base_digest;
  if (!identity.begun_from.empty()) json["begun_from"] = identity.begun_from;
  for (const CopiedRun& run : identity.copied_from) {
    json["copied_from"].push_back({{"id", run.id}, {"checkpoints", run.checkpoints}});
  }
  if (!identity.checkpoints.empty()) json["checkpoints"] = identity.checkpoints;
  const FolderPlace folder = place_of(run_dir);
  json["folder"] = folder.path, json["inode"] = folder.inode;
  // Paths may be any bytes. A base or a folder whose name is replaced is not found again, which a start then says.
  io::write_whole_file("record", run_dir + "/run.json",
                       json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

checkpoint::RunFilter checkpoints_of(const std::string& checkpoint_dir, const RunIdentity& identity) {
  checkpoint::RunFilter runs{identity.id};
  const std::string dir = io::canonical_path(checkpoint_dir);
  for (const CopiedRun& run : identity.copied_from) {
    if (dir != run.checkpoints) runs.copied_from.push_back(run.id);
  }
  return runs;
}

checkpoint::SaveOptions save_options(const CheckpointConfig& checkpoint, const RunIdentity& identity) {
  const checkpoint::RunFilter runs = checkpoints_of(checkpoint.dir, identity);
  return {.keep = static_cast<int>(checkpoint.keep),
          .keep_every = checkpoint.keep_every,
          .best = checkpoint.best,
          .copied_from = runs.copied_from};
}

}  // namespace lt::saver
