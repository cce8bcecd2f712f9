// The run folder: created, continued or refused.
#include "train/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/pending_file.h"
#include "libtrain/checkpoint.h"
#include "libtrain/error.h"
#include "libtrain/random.h"
#include "report/arena_drawing.h"
#include "train/config_toml.h"
#include "train/machine.h"

namespace lt {
namespace {

namespace fs = std::filesystem;

bool is_empty(const std::string& dir) { return !fs::exists(dir) || fs::is_empty(dir); }
bool holds_a_run(const std::string& dir) {
  return fs::exists(dir + "/config.toml") || fs::exists(dir + "/metrics.jsonl") || fs::exists(dir + "/checkpoints");
}

void require_folder(const char* key, const std::string& dir) {
  if (!fs::exists(dir) || fs::is_directory(dir)) return;
  throw UsageError("config", fmt::format("{} {}: expected a folder, found a file", key, dir));
}

// Holds `dir` for this process, and for it alone; a folder that is still empty at the end, because the start was
// refused, goes again. A file system without locks gives none.
std::shared_ptr<void> lock_folder(const std::string& dir) {
  const int fd = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(fd);
    throw UsageError("config",
                     fmt::format("run.dir {}: expected a folder of its own, another run is at work in it", dir),
                     "wait for it to end; ranks of a killed mpirun live on for a second or two");
  }
  return {nullptr, [fd, dir](void*) {
            ::rmdir(dir.c_str());  // fails where it holds anything
            ::close(fd);
          }};
}

// Keys whose change makes another run of it: everything of the model, the data and the optimizer, and the length of a
// sample. What only says where a run starts or is measured may change.
bool decides_the_run(const std::string& key) {
  if (key == "model.from" || key == "model.preset" || key == "data.val") return false;
  return key.starts_with("model.") || key.starts_with("data.") || key.starts_with("optim.") || key == "train.seq";
}

// `earlier` is the configuration of the run in `where`, as TOML.
void require_same_run(const Config& resolved, const std::string& earlier, const std::string& where) {
  const auto now = flatten(resolved), before = flatten(config_from_toml(earlier, where));
  std::string differences;
  for (const auto& [key, value] : now) {
    if (!decides_the_run(key)) continue;
    const auto found = before.find(key);
    if (found != before.end() && found->second != value) {
      differences += fmt::format("{}{}: {} there, {} now", differences.empty() ? "" : "; ", key, found->second, value);
    }
  }
  if (differences.empty()) return;
  throw UsageError("config",
                   fmt::format("run.dir {}: {} is of another configuration: {}", resolved.run.dir, where, differences),
                   "choose another --run.dir, or --checkpoint.resume=never --run.force=true to move the old run aside");
}

void move_aside(const std::string& dir) {
  for (int k = 1;; ++k) {
    const std::string aside = fmt::format("{}.old-{}", dir, k);
    if (fs::exists(aside)) continue;
    fs::rename(dir, aside);
    return;
  }
}

// A fresh run in a folder that may hold an old one.
void require_fresh(const Config& resolved) {
  const std::string& dir = resolved.run.dir;
  if (is_empty(dir)) return;
  const std::string expected = fmt::format("run.dir {}: expected a new or empty folder with checkpoint.resume={}", dir,
                                           resolved.checkpoint.resume);
  if (!holds_a_run(dir)) throw UsageError("config", expected + ", found files that are no run's");
  if (!resolved.run.force) {
    throw UsageError("config", expected + ", found a run",
                     "--checkpoint.resume=auto goes on with it, --run.force=true moves it aside");
  }
  move_aside(dir);
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

RunStart open_run_folder(const Config& resolved) {
  const std::string& dir = resolved.run.dir;
  const std::string& resume = resolved.checkpoint.resume;
  RunStart start;
  std::vector<std::string> notes;
  require_folder("run.dir", dir);
  require_folder("checkpoint.dir", resolved.checkpoint.dir);
  start.lock = lock_folder(dir);
  if (resume == "never") {
    require_fresh(resolved);
  } else if (resume == "auto") {
    const std::string config = dir + "/config.toml";
    if (fs::exists(config)) require_same_run(resolved, config::read_text(config), config);
    if (fs::exists(resolved.checkpoint.dir)) {
      start.checkpoint = checkpoint::find_newest(resolved.checkpoint.dir, &notes, true).value_or("");
    }
    if (!start.checkpoint.empty()) {
      const std::string config_there = checkpoint::read_state(start.checkpoint).config;
      // A program that links the library saves none.
      if (!config_there.empty()) require_same_run(resolved, config_there, start.checkpoint);
    }
  } else {
    start.checkpoint = checkpoint::newest(resume, &notes, "checkpoint.resume");
    require_fresh(resolved);
  }
  start.notes = joined(notes);
  if (fs::exists(dir)) return start;
  start.lock.reset();  // of a folder that was moved aside
  std::error_code failed;
  fs::create_directories(dir, failed);
  if (failed) throw DataError("record", fmt::format("run.dir {}: cannot create: {}", dir, failed.message()));
  start.lock = lock_folder(dir);
  return start;
}

void write_run_files(const Config& resolved, const World& world, const std::string& command,
                     const std::vector<const MemoryProgram*>& programs) {
  nlohmann::ordered_json env = machine(world);
  env["command"] = command;
  write_whole_file("record", resolved.run.dir + "/config.toml", to_toml(resolved));
  write_whole_file("record", resolved.run.dir + "/env.json", env.dump(2) + "\n");
  for (const MemoryProgram* program : programs) {
    if (program->name == "step") write_whole_file("record", resolved.run.dir + "/arena.svg", arena_svg(*program));
  }
}

std::string config_hash(const Config& resolved) {
  std::string text;
  for (const auto& [key, value] : flatten(resolved)) {
    if (decides_the_run(key)) text += key + "=" + value + "\n";
  }
  return fmt::format("{:016x}", derive_key(0, text));
}

}  // namespace lt
