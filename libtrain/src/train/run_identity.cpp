// A run's id, and which checkpoints are its own.
#include "train/run_identity.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/pending_file.h"
#include "libtrain/error.h"

namespace lt {
namespace {

namespace fs = std::filesystem;

std::string time_of(const std::string& id) { return id.substr(0, id.find('-')); }

bool keeps_its_checkpoints(const Config& resolved) {
  return fs::weakly_canonical(resolved.checkpoint.dir) == fs::weakly_canonical(resolved.run.dir + "/checkpoints");
}

// An unreadable file counts as missing.
RunIdentity read_identity(const std::string& run_dir) {
  std::ifstream stream(run_dir + "/run.json", std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  const auto json = nlohmann::json::parse(text.str(), nullptr, false);
  if (!json.is_object()) return {};
  const auto field = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  };
  return {field("id"), field("parent"), field("began")};
}

}  // namespace

RunIdentity new_identity(const std::string& parent) {
  const std::string id = checkpoint::draw_run_id();
  return {id, parent, time_of(id), true};
}

RunIdentity identity_of(const Config& resolved) {
  const RunIdentity kept = read_identity(resolved.run.dir);
  if (!kept.id.empty()) return kept;
  std::set<std::string> ids;
  std::string newest;
  if (keeps_its_checkpoints(resolved) && fs::exists(resolved.checkpoint.dir)) {
    for (const checkpoint::Listing& entry : checkpoint::list(resolved.checkpoint.dir, false)) {
      if (!entry.run.empty()) ids.insert(entry.run), newest = entry.path;
    }
  }
  if (ids.size() != 1) return new_identity();
  return {*ids.begin(), checkpoint::read_state(newest).parent, time_of(*ids.begin())};
}

void write_identity(const std::string& run_dir, const RunIdentity& identity) {
  const nlohmann::ordered_json json = {{"id", identity.id}, {"parent", identity.parent}, {"began", identity.began}};
  write_whole_file("record", run_dir + "/run.json", json.dump(2) + "\n");
}

checkpoint::Whose checkpoints_of(const Config& resolved, const RunIdentity& identity) {
  return {identity.id, keeps_its_checkpoints(resolved)};
}

void require_no_other_run(const Config& resolved, const RunIdentity& identity) {
  const std::string& dir = resolved.checkpoint.dir;
  const auto other = checkpoint::find_other(dir, checkpoints_of(resolved, identity));
  if (!other) return;
  throw UsageError(
      "config",
      fmt::format("checkpoint.dir {}: expected checkpoints of {} alone, found {} of {}", dir,
                  identity.is_new ? "a new run" : "run " + identity.id, fs::path(other->path).filename().string(),
                  other->run.empty() ? "version 1, without an id" : "run " + other->run),
      fmt::format("choose another --checkpoint.dir; --checkpoint.resume={} with it begins a new run from there",
                  other->path));
}

checkpoint::SaveOptions save_options(const Config& resolved) {
  const CheckpointConfig& checkpoint = resolved.checkpoint;
  return {.keep = static_cast<int>(checkpoint.keep),
          .keep_every = checkpoint.keep_every,
          .best = checkpoint.best,
          .version_1 = keeps_its_checkpoints(resolved)};
}

}  // namespace lt
