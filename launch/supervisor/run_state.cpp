// Reads file names, sizes, inodes and the seals of in-memory checkpoints. Writes only restart events.
#include "launch/supervisor/run_state.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoints/format/folder_lock.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/memory/memory_folder.h"
#include "config/config_schema.h"
#include "io/last_lines.h"
#include "io/readable.h"
#include "libtrain/error.h"
#include "record/line_file.h"
#include "save/run_identity.h"

namespace lt::launch {
namespace {

namespace fs = std::filesystem;

ino_t inode(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

// Empty if it cannot be read, which the next attempt reports.
saver::RunIdentity identity_in(const std::string& folder) {
  try {
    return saver::read_identity(folder);
  } catch (const DataError&) {
    return {};
  }
}

// True if is_one() holds for a line of the file from `offset` on. Ignores a torn last line.
template <class IsOne>
bool has_line(const std::string& file, std::size_t offset, IsOne&& is_one) {
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(offset));
  for (std::string line; std::getline(stream, line) && !stream.eof();) {
    if (is_one(line)) return true;
  }
  return false;
}

// A step's row, or the restart event itself.
bool shows_a_step(const std::string& line) {
  return line.starts_with(R"({"step":)") || line.starts_with(R"({"event":"restart",)");
}

bool shows_a_stop(const std::string& line) {
  if (!line.starts_with(R"({"event":"end",)")) return false;
  const auto event = nlohmann::json::parse(line, nullptr, false);
  if (!event.is_object() || !event.contains("reason") || !event["reason"].is_string()) return false;
  const auto reason = event["reason"].get<std::string>();
  return reason == "max_minutes" || reason.starts_with("signal ");
}

}  // namespace

RunState::RunState(const Config& config)
    : folder_(config.run.dir),
      metrics_(config.run.dir + "/metrics.jsonl"),
      checkpoints_(config.checkpoint.dir.empty() ? config::own_checkpoints(config.run.dir) : config.checkpoint.dir),
      before_(marks()) {}

bool RunState::begins_again() const {
  const std::string from = identity_in(folder_).begun_from;
  std::error_code failed;
  return !from.empty() && fs::exists(fs::path(from) / checkpoint::kManifestName, failed);
}

bool RunState::Saved::has_more_than(const Saved& before) const {
  if (folder != before.folder) return !is_empty();
  return in_memory > before.in_memory || !std::ranges::includes(before.on_disk, on_disk);
}

RunState::Saved RunState::saved() const {
  Saved saved{.on_disk = {}, .in_memory = copied_step(), .folder = inode(folder_)};
  for (const fs::path& entry : io::readable_entries(checkpoints_)) {
    const std::optional<Size> step = checkpoint::parse_step(entry.filename().string());
    std::error_code failed;
    if (step && fs::exists(entry / checkpoint::kManifestName, failed)) saved.on_disk.insert(*step);
  }
  return saved;
}

Size RunState::copied_step() const {
  Size newest = -1;
  const saver::RunIdentity identity = identity_in(folder_);
  for (const auto& [file, copy] : checkpoint::memory_copies(identity.id)) {
    const checkpoint::CopySeal seal = copy->sealed();
    if (seal.step > 0 && seal.timeline == checkpoint::timeline_number(identity.timeline))
      newest = std::max(newest, seal.step);
  }
  return newest;
}

Size RunState::saved_step() const {
  const Saved all = saved();
  return all.on_disk.empty() ? -1 : *all.on_disk.rbegin();
}

RunState::Marks RunState::marks() const { return {inode(folder_), inode(metrics_)}; }

RunState::MetricsEnd RunState::metrics_end() const {
  std::error_code failed;
  const auto bytes = fs::file_size(metrics_, failed);
  const std::optional<io::LastLines::Line> last = io::LastLines(metrics_).next();
  if (failed || !last) return {inode(metrics_), 0};
  const bool is_torn = last->begin + last->text.size() >= bytes;
  return {inode(metrics_), is_torn ? last->begin : bytes};
}

// An attempt moves the files of a start that saved nothing aside, and cuts off a torn last line.
std::optional<std::size_t> RunState::begin_after(const MetricsEnd& end) const {
  const MetricsEnd now = metrics_end();
  if (now.file == 0) return std::nullopt;
  return now.file == end.file ? std::min(end.bytes, now.bytes) : 0;
}

bool RunState::was_stopped(const MetricsEnd& begin) const {
  const std::optional<std::size_t> offset = begin_after(begin);
  return offset && has_line(metrics_, *offset, shows_a_stop);
}

void RunState::record(const run::Restart& restart, const MetricsEnd& end, std::chrono::milliseconds patience) const {
  // Where the attempt's lines begin, unless they hold a step or the event.
  const auto unrecorded = [&]() -> std::optional<std::size_t> {
    const std::optional<std::size_t> offset = begin_after(end);
    return offset && !has_line(metrics_, *offset, shows_a_step) ? offset : std::nullopt;
  };
  if (!unrecorded()) return;
  std::shared_ptr<void> lock;
  try {
    lock = checkpoint::lock_folder(folder_, patience, checkpoint::LockOn::folder_and_file);
  } catch (const checkpoint::FolderTaken&) {
    throw DataError("launch",
                    fmt::format("run.dir {}: another run, or a rank of this one elsewhere, is at work in it", folder_));
  }
  const std::optional<std::size_t> offset = unrecorded();  // another run may have written meanwhile
  if (offset)
    recorder::LineFile(metrics_).append(run::restart_event(restart, run::restart_point(metrics_, *offset)).dump());
}

}  // namespace lt::launch
