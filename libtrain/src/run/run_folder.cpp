// Decides whether a run folder is created, continued or rejected.
#include "run/run_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "checkpoints/format/files.h"
#include "checkpoints/format/find.h"
#include "checkpoints/format/folder_lock.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/format/load.h"
#include "checkpoints/format/retention.h"
#include "checkpoints/format/run_id.h"
#include "config/config_schema.h"
#include "config/config_toml.h"
#include "data/file_list.h"
#include "io/file.h"
#include "io/file_name.h"
#include "io/paths.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/error.h"
#include "run/same_data.h"
#include "run/same_run.h"
#include "save/checkpoint_space.h"

namespace lt::run {
namespace {

namespace fs = std::filesystem;

// Whether there is nothing in the folder except its lock, or a run.json that a killed start left half-written.
bool is_empty(const std::string& dir) {
  if (!fs::exists(dir)) return true;
  return std::ranges::all_of(fs::directory_iterator(dir), [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename();
    return name == checkpoint::kLockName || name.starts_with("run.json.tmp-");
  });
}
bool holds_a_run(const std::string& dir) {
  constexpr const char* kFiles[] = {"config.toml", "run.json", "metrics.jsonl", "log.txt", "checkpoints"};
  return std::ranges::any_of(kFiles, [&](const char* name) { return fs::exists(fs::path(dir) / name); });
}

void require_folder(const char* key, const std::string& dir) {
  if (!fs::exists(dir) || fs::is_directory(dir)) return;
  throw UsageError("config", fmt::format("{} {}: expected a folder, found a file", key, dir));
}

// Locks `dir` for this process. Returns null if there is no such folder, or no lock on its file system. The patience
// covers ranks of a killed start, which can live on for seconds.
std::shared_ptr<void> lock_folder(const std::string& dir, std::chrono::milliseconds patience = kFolderPatience) {
  std::shared_ptr<void> lock;
  try {
    if (const auto at_once = checkpoint::try_lock_folder(dir, checkpoint::LockOn::folder_and_file)) {
      lock = *at_once;
    } else {
      std::fprintf(stderr, "warning: [config] run.dir %s: another run is at work in it; waits up to %d s for its end\n",
                   dir.c_str(), static_cast<int>(patience / std::chrono::seconds(1)));
      lock = checkpoint::lock_folder(dir, patience, checkpoint::LockOn::folder_and_file);
    }
  } catch (const checkpoint::FolderTaken&) {
    throw UsageError("config",
                     fmt::format("run.dir {}: expected a folder of its own, another run is at work in it", dir),
                     "wait for it to end, or give this run another run.dir");
  }
  return lock;
}

// The same lock of a folder that this start has made. On release it also removes the folder if that is empty.
std::shared_ptr<void> removing_if_empty(std::shared_ptr<void> lock, const std::string& dir) {
  return {lock.get(), [lock, dir](void*) mutable {
            lock.reset();          // removes its file
            ::rmdir(dir.c_str());  // fails unless the folder is empty
          }};
}

void move_aside(const std::string& dir) {
  fs::path path = fs::absolute(dir).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();  // "runs/first/"
  for (int k = 1;; ++k) {
    const std::string aside = io::with_suffix(path, fmt::format(".old-{}", k));
    if (fs::exists(aside)) continue;
    std::error_code failed;
    fs::rename(path, aside, failed);
    if (!failed) return;
    throw DataError("config", fmt::format("run.dir {}: cannot be moved aside to {}: {}", dir, aside, failed.message()),
                    "another --run.dir leaves it alone");
  }
}

// Checks the folder of a fresh run. Returns whether an old run in it must be moved aside.
bool require_fresh(const Resolved& resolved) {
  const std::string& dir = resolved.run.dir;
  if (is_empty(dir)) return false;
  const std::string expected = fmt::format("run.dir {}: expected a new or empty folder with checkpoint.resume={}", dir,
                                           resolved.checkpoint.resume);
  if (!holds_a_run(dir)) throw UsageError("config", expected + ", found files that do not belong to a run");
  if (io::is_within(fs::current_path().string(), dir)) {
    throw UsageError("config", expected + ", found a run, and the program's working directory in it",
                     "choose another --run.dir for the new run");
  }
  const auto require_outside = [&](const char* key, const std::string& path, const char* what = "a folder") {
    if (!io::is_within(path, dir)) return;
    throw UsageError(
        "config",
        fmt::format("{} {}: expected {} outside of run.dir {}, which would be moved aside", key, path, what, dir),
        "choose another --run.dir for the new run");
  };
  if (resolved.resume == Resume::folder) require_outside("checkpoint.resume", resolved.checkpoint.resume);
  if (!resolved.weights.from.empty()) require_outside("model.from", resolved.weights.from);
  const auto require_files_outside = [&](const char* key, const std::vector<std::string>& files) {
    for (const std::string& path : data::expand_files(files)) require_outside(key, path, "files");
  };
  for (const DataSource& source : resolved.data.sources) require_files_outside(resolved.data.key.c_str(), source.files);
  require_files_outside("data.val", resolved.data.val);
  if (!resolved.run.force) {
    throw UsageError("config", expected + ", found a run",
                     "another --run.dir leaves it alone, --checkpoint.resume=auto continues it, --run.force=true "
                     "moves it aside");
  }
  return true;
}

// Throws DataError if no checkpoint can be written to `dir`, so that this shows before the training and not after it.
// Makes and removes the folder and a file of a save. The run's next save removes what a kill in between leaves.
void require_writable(const std::string& dir, const std::string& run) {
  const auto fail = [&](const std::string& reason) {
    throw DataError("checkpoint",
                    fmt::format("checkpoint.dir {}: expected a folder to write to, found: {}", dir, reason),
                    "choose another --checkpoint.dir, or --run.dir where it is not given");
  };
  std::vector<fs::path> made;  // innermost first
  const fs::path folder = fs::absolute(dir).lexically_normal();
  for (fs::path path = folder; !fs::exists(path) && path.has_relative_path(); path = path.parent_path()) {
    if (!path.filename().empty()) made.push_back(path);
  }
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!failed) {
    const std::string name = checkpoint::temporary_name(checkpoint::step_name(0), checkpoint::attempt_of(run));
    const fs::path save = folder / name, file = save / checkpoint::shard_name(0);
    if (fs::create_directory(save, failed) && !io::create_new(file.string()).is_open()) {
      failed.assign(errno, std::generic_category());
    }
    ::unlink(file.c_str());
    ::rmdir(save.c_str());
  }
  for (const fs::path& path : made) ::rmdir(path.c_str());
  if (failed) fail(failed.message());
}

// The last step in metrics.jsonl; 0 if it has no step.
Size last_recorded_step(const std::string& dir) {
  std::ifstream stream(dir + "/metrics.jsonl", std::ios::binary);
  Size last = 0;
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("{\"step\":")) continue;  // events begin with "event"
    last = std::max(last, Size{std::atol(line.c_str() + std::strlen("{\"step\":"))});
  }
  return last;
}

bool has_recorded_a_save(const std::string& dir) {
  std::ifstream stream(dir + "/metrics.jsonl", std::ios::binary);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("{\"event\":\"checkpoint\"")) return true;
  }
  return false;
}

// The message for a run that starts at its first step in a folder that an earlier start has used; otherwise empty.
std::string starting_over(const Resolved& resolved, std::size_t damaged, Size first_step) {
  const Size recorded = last_recorded_step(resolved.run.dir);
  if (damaged == 0 && recorded == 0) return "";
  std::string text =
      fmt::format("starting over at step {}: {} holds no valid checkpoint", first_step, resolved.checkpoint.dir);
  if (damaged > 0) text += fmt::format(" ({} damaged)", damaged);
  if (recorded > 0) text += fmt::format(", metrics.jsonl has steps up to {}", recorded);
  return text;
}

// For a run that begins from `step`, the checkpoint of another run, which messages name by `from`.
void require_steps_left(const Resolved& resolved, Size step, const std::string& from) {
  if (step < resolved.steps()) return;
  if (resolved.data.epochs > 0) {  // train.steps follows from it
    throw UsageError("config", fmt::format("data.epochs: expected more than the samples that {} has read, got {}", from,
                                           resolved.data.epochs));
  }
  throw UsageError("config",
                   fmt::format("train.steps: expected more than the {} of {}, got {}", step, from, resolved.steps()),
                   "the checkpoint's steps count too");
}

// Compares nothing if the checkpoint has no configuration: a program that links the library saves none.
void require_same_config(const Resolved& resolved, const checkpoint::RunState& state, const std::string& folder,
                         bool same_files) {
  if (!state.config.empty()) require_same_run(resolved.config, state.config, folder, same_files);
}

}  // namespace

void require_no_other_checkpoints(const Resolved& resolved, const saver::RunIdentity& identity) {
  std::vector<std::string> places = {config::own_checkpoints(resolved.run.dir), identity.checkpoints};
  if (!identity.folder.path.empty() && !identity.checkpoints.empty()) {  // in the folder, which may have been moved
    places.push_back(io::moved_path(identity.checkpoints, identity.folder.path, resolved.run.dir));
  }
  for (const std::string& place : places) {
    if (place.empty() || io::canonical_path(place) == io::canonical_path(resolved.checkpoint.dir)) continue;
    const auto candidates = checkpoint::candidates(place, saver::checkpoints_of(place, identity));
    const checkpoint::Listing* const newest = checkpoint::newest_valid(candidates);
    if (newest == nullptr) continue;
    throw UsageError("config",
                     fmt::format("checkpoint.dir {}: expected the run's checkpoints, found none; the newest is {}",
                                 resolved.checkpoint.dir, newest->path),
                     "name that folder, or move its checkpoints to the new one; another --run.dir starts over");
  }
  // Who removes the folder in run.dir wants to begin anew. Another one may be on a disk that is not mounted.
  const bool is_elsewhere = !io::is_within(resolved.checkpoint.dir, resolved.run.dir);
  if (!is_elsewhere || fs::exists(resolved.checkpoint.dir) || !has_recorded_a_save(resolved.run.dir)) return;
  throw UsageError(
      "config",
      fmt::format("checkpoint.dir {}: expected the run's checkpoints, which metrics.jsonl records, found no "
                  "such folder",
                  resolved.checkpoint.dir),
      "name the folder where they are now; another --run.dir starts over");
}

void require_readable_checkpoints(const Resolved& resolved, const RunFolder& folder) {
  const auto unreadable = checkpoint::first_unreadable(folder.candidates);
  if (!unreadable) return;
  throw DataError(
      "checkpoint",
      fmt::format("checkpoint.dir {}: expected files that can be read, found {}", resolved.checkpoint.dir, *unreadable),
      "the checkpoint may be whole; a run with another --run.dir, and another --checkpoint.dir if given, starts over");
}

bool goes_on(const Resolved& resolved) {
  if (resolved.resume == Resume::never) return false;
  const auto has_any = [](const std::string& folder, const checkpoint::RunFilter& filter) {
    return checkpoint::newest_valid(checkpoint::candidates(folder, filter)) != nullptr;
  };
  if (resolved.resume == Resume::folder) return has_any(resolved.checkpoint.resume, checkpoint::kAnyRun);
  const saver::RunIdentity identity = saver::identity_of(resolved.run.dir, resolved.checkpoint.dir);
  return has_any(resolved.checkpoint.dir, saver::checkpoints_of(resolved.checkpoint.dir, identity)) ||
         (!identity.begun_from.empty() && has_any(identity.begun_from, checkpoint::kAnyRun));
}

RunFolder examine_run_folder(const Resolved& resolved, const std::vector<checkpoint::DataFile>& files,
                             std::chrono::milliseconds patience) {
  const std::string& dir = resolved.run.dir;
  RunFolder found;
  require_folder("run.dir", dir);
  require_folder("checkpoint.dir", resolved.checkpoint.dir);
  found.lock = lock_folder(dir, patience);
  if (resolved.resume == Resume::automatic) {
    found.identity = saver::identity_of(resolved.run.dir, resolved.checkpoint.dir);
    found.candidates =
        checkpoint::candidates(resolved.checkpoint.dir, saver::checkpoints_of(resolved.checkpoint.dir, found.identity));
    const checkpoint::Listing* const newest = checkpoint::newest_valid(found.candidates);
    const checkpoint::RunState state =
        newest == nullptr ? checkpoint::RunState{} : checkpoint::read_state(newest->path);
    found.same_files = is_same_data(files, {state.data_files, found.identity.data});
    const std::string config = dir + "/config.toml";
    if (fs::exists(config)) require_same_run(resolved.config, config::read_text(config), config, found.same_files);
    // All checkpoints of a run have the same configuration. Compare it before the checkpoint is loaded.
    if (newest != nullptr) require_same_config(resolved, state, newest->path, found.same_files);
  } else {
    found.identity = saver::new_identity();
    if (resolved.resume == Resume::folder) {
      found.candidates = checkpoint::candidates(resolved.checkpoint.resume, checkpoint::kAnyRun);
    }
    found.moves_aside = require_fresh(resolved);
  }
  // Checkpoints that are moved aside with the folder cannot conflict.
  if (!found.moves_aside || !io::is_within(resolved.checkpoint.dir, dir)) {
    checkpoint::require_no_other_run(resolved.checkpoint.dir,
                                     saver::checkpoints_of(resolved.checkpoint.dir, found.identity), "checkpoint.dir");
  }
  return found;
}

void open_run_folder(const Resolved& resolved, RunFolder& folder, const Start& start, Size checkpoint_bytes) {
  const std::string& dir = resolved.run.dir;
  const bool goes_on = resolved.resume == Resume::automatic;
  const checkpoint::Loaded* const checkpoint = checkpoint_of(start);
  const Size done = state_of(start).step;
  const bool is_from_memory = std::holds_alternative<FromMemory>(start);
  if (std::holds_alternative<FromOtherRun>(start)) {
    require_steps_left(resolved, done, goes_on ? checkpoint->folder : "checkpoint.resume " + checkpoint->folder);
    if (!goes_on) {
      folder.identity.parent = checkpoint->state.run;
      folder.identity.begun_from = fs::absolute(checkpoint->folder).lexically_normal();
    }
  } else if (checkpoint != nullptr) {
    require_same_config(resolved, checkpoint->state, checkpoint->folder, folder.same_files);
  }
  const bool has_none_of_its_own = checkpoint == nullptr || std::holds_alternative<FromOtherRun>(start);
  if (goes_on && has_none_of_its_own && !is_from_memory) {
    folder.starting_over = starting_over(resolved, folder.candidates.size(), done + 1);
  }
  if (!std::holds_alternative<Complete>(start)) {
    require_writable(resolved.checkpoint.dir, folder.identity.id);
    const Size present = goes_on ? std::ranges::count_if(folder.candidates, &checkpoint::Listing::valid) : 0;
    folder.little_space =
        saver::require_space(resolved.checkpoint.dir, checkpoint_bytes,
                             saver::most_new_checkpoints(resolved.checkpoint, resolved.steps(), done, present),
                             !goes_on || folder.identity.is_new);
  }
  if (folder.moves_aside) {
    move_aside(dir);
    folder.lock.reset();  // it locked the folder that was moved aside
  }
  if (folder.lock != nullptr) return;
  const bool is_made = !fs::exists(dir);
  try {
    checkpoint::make_folders_durably(dir);
  } catch (const DataError& error) {
    throw DataError("record", fmt::format("run.dir {}", error.what()));
  }
  folder.lock = lock_folder(dir);
  if (is_made && folder.lock != nullptr) folder.lock = removing_if_empty(std::move(folder.lock), dir);
  // The folder was not there, or not locked because its file system has no locks.
  if (folder.lock == nullptr || is_empty(dir)) return;
  throw UsageError("config", fmt::format("run.dir {}: expected a folder of its own, another run has made it", dir),
                   "the same command again continues that run or names what differs");
}

void remove_leftovers_of(const Resolved& resolved, const saver::RunIdentity& identity) {
  const std::string& dir = resolved.checkpoint.dir;
  try {
    const auto lock = checkpoint::try_lock_folder(dir);
    if (lock) checkpoint::remove_leftovers(dir, saver::checkpoints_of(resolved.checkpoint.dir, identity));
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace lt::run
