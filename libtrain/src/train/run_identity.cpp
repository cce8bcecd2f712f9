// Reads and writes a run's identity, and selects the run's own checkpoints.
#include "train/run_identity.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "io/json_depth.h"
#include "io/pending_file.h"
#include "io/whole_file.h"
#include "libtrain/error.h"
#include "run_id.h"

namespace lt {
namespace {

namespace fs = std::filesystem;

std::string time_of(const std::string& id) { return id.substr(0, id.find('-')); }

bool keeps_its_checkpoints(const Config& resolved) {
  return fs::weakly_canonical(resolved.checkpoint.dir) == fs::weakly_canonical(resolved.run.dir + "/checkpoints");
}

constexpr std::size_t kMostBytes = 16384;  // size limit of run.json, which may name a path

}  // namespace

// A file that write_identity() cannot have written counts as missing: id and parent go into every manifest, and invalid
// ones would make the manifests unreadable. One that the system does not let this process read may be the run's.
RunIdentity read_identity(const std::string& run_dir) {
  const FileText file = read_file(run_dir + "/run.json", true, kMostBytes);
  if (file.error != 0 && file.error != ENOENT && file.error != ENOTDIR) {
    throw DataError("record", fmt::format("{}/run.json: expected a readable file, found: {}", run_dir, file.problem));
  }
  if (!file.problem.empty() || json_depth(file.text) > kMaxJsonDepth) return {};
  const auto json = nlohmann::json::parse(file.text, nullptr, false);
  if (!json.is_object()) return {};
  const auto field = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  };
  RunIdentity identity{.id = field("id"),
                       .parent = field("parent"),
                       .began = field("began"),
                       .timeline = field("timeline"),
                       .data = field("data"),
                       .base = field("base"),
                       .base_digest = field("base_digest"),
                       .begun_from = field("begun_from")};
  const auto is_empty_or_id = [](const std::string& text) { return text.empty() || checkpoint::is_run_id(text); };
  if (!is_empty_or_id(identity.id) || !is_empty_or_id(identity.parent) || !is_empty_or_id(identity.began) ||
      !is_empty_or_id(identity.timeline) || !is_empty_or_id(identity.data)) {
    return {};
  }
  return identity;
}

RunIdentity new_identity(const std::string& parent) {
  const std::string id = checkpoint::draw_run_id();
  return {.id = id, .parent = parent, .began = time_of(id), .timeline = "", .data = "", .is_new = true};
}

RunIdentity identity_of(const Config& resolved) {
  const RunIdentity kept = read_identity(resolved.run.dir);
  if (!kept.id.empty()) return kept;
  std::set<std::string> ids;
  std::string newest;
  if (keeps_its_checkpoints(resolved) && fs::exists(resolved.checkpoint.dir)) {
    for (const checkpoint::Listing& entry : checkpoint::saved_in(resolved.checkpoint.dir)) {
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
  // Paths may be any bytes. A base or a folder whose name is replaced is not found again, which a start then says.
  write_whole_file("record", run_dir + "/run.json",
                   json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

checkpoint::RunFilter checkpoints_of(const Config& resolved, const RunIdentity& identity) {
  return {identity.id, keeps_its_checkpoints(resolved)};
}

checkpoint::SaveOptions save_options(const Config& resolved) {
  const CheckpointConfig& checkpoint = resolved.checkpoint;
  return {.keep = static_cast<int>(checkpoint.keep),
          .keep_every = checkpoint.keep_every,
          .best = checkpoint.best,
          .version_1 = keeps_its_checkpoints(resolved)};
}

}  // namespace lt
