// Times steps of a run with recording and without.
#include "bench/recorded_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "bench/timing.h"
#include "bench/training.h"
#include "checkpoints/format/folder_lock.h"
#include "config/model_table.h"
#include "libtrain/config/resolved.h"
#include "libtrain/data/prepare.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "libtrain/profile/timeline.h"
#include "run/step_record.h"

namespace lt::bench {
namespace {

namespace fs = std::filesystem;

// Replaces `given`'s files by those of `folder` and drops everything that a run does beside its steps.
Resolved only_steps(const Config& given, int ranks, const RunFolder& folder) {
  Config config = given;
  config.model.from.clear();
  config.data = {}, config.checkpoint = {}, config.record = {}, config.run = {};
  config.run.dir = folder.path() + "/run";
  config.train.steps = 1;
  config.train.eval_every = config.train.sample_every = 0;
  if (!config::has_own_batches(config)) config.data.train = {folder.path() + "/data/train.bin"};
  return resolve(config, ranks);
}

// Counts the lines from byte `from` on.
Size lines_from(const std::string& path, Size from) {
  std::ifstream file(path);
  file.seekg(from);
  return std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n');
}

// A new folder where TMPDIR says.
std::string new_temporary_folder() {
  const char* const named = std::getenv("TMPDIR");
  const std::string where = named != nullptr && *named != '\0' ? named : "/tmp";
  std::string made = where + "/libtrain-bench-XXXXXX";
  if (::mkdtemp(made.data()) != nullptr) return made;
  throw DataError("bench",
                  fmt::format("temporary folder (TMPDIR, else /tmp): expected one that takes files, got {}: {}", where,
                              std::strerror(errno)));
}

}  // namespace

RunFolder::RunFolder(const World& world, Size tokens) : owner_(world.rank() == 0) {
  std::string made;
  collectively(world.group(), [&] {
    if (!owner_) return;
    made = new_temporary_folder();
    std::ofstream(made + "/text.txt") << std::string(static_cast<std::size_t>(tokens), '\0');
    lt::prepare({.inputs = {made + "/text.txt"}, .out = made + "/data", .val_fraction = 0});
  });
  path_ = world.group().broadcast_bytes(made, 0);
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  if (owner_) fs::remove_all(path_, ignored);
}

RecordedRun::RecordedRun(const Config& given, const World& world, const RunFolder& folder)
    : RecordedRun(only_steps(given, world.size(), folder), world) {}

RecordedRun::RecordedRun(const Resolved& resolved, const World& world)
    : model_(made_by_all(world.group(), [&] { return make_model(resolved); })),
      batches_(
          made_by_all(world.group(),
                      [&] { return config::own_batches(resolved, resolved.batch_shape(world.rank(), world.size())); })),
      run_(resolved, world, *model_, batches_.get()) {
  collectively(run_.control, [&] {
    if (world.rank() != 0) return;
    sinks_.push_back(recorder::make_csv_sink(run_.resolved.run.dir + "/metrics.csv"));
    sinks_.push_back(recorder::make_tensorboard_sink(run_.resolved.run.dir + "/tb", 1));
    seen_ = files();
  });
}

RecordedStep RecordedRun::step(RecordMode mode) {
  run_.control.barrier();
  const auto timeline = mode == RecordMode::trace ? make_timeline(run_.device()) : nullptr;
  RecordedStep step;
  {
    const TimelineScope spans(timeline);
    step.ms = timed_step(mode);
  }
  if (run_.world.rank() != 0) return step;
  step.written = written();
  if (timeline != nullptr) step.written.spans = static_cast<Size>(timeline->spans().size());
  return step;
}

double RecordedRun::timed_step(RecordMode mode) {
  const double begin = now_ms();
  const profile::ActivityClockScope clock(mode == RecordMode::off ? nullptr : &clock_);
  const StepResult result = run_.engine->step(next_batch());
  if (mode == RecordMode::off) {
    static_cast<void>(result.loss());
  } else {
    const recorder::StepRecord record = run::finish_step(run_, run::issued_step(run_, result, 0, clock_)).record;
    run_.log.step(record);
    if (mode == RecordMode::sinks) {
      for (const auto& sink : sinks_) sink->step(record);
    }
  }
  run_.control.barrier();  // ranks wait for each other here or in the next step; that is not a cost of recording
  return now_ms() - begin;
}

Batch RecordedRun::next_batch() {
  const profile::ActivityScope activity(Activity::data);
  const MemoryScope owner(MemoryOwner::data);
  run_.data.batches->seek(0);
  return run_.data.batches->next();
}

std::map<std::string, Size> RecordedRun::files() const {
  std::map<std::string, Size> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(run_.resolved.run.dir)) {
    const std::string name = entry.path().filename();
    if (!entry.is_regular_file() || name == "run.json" || name == checkpoint::kLockName) continue;
    files[entry.path().lexically_relative(run_.resolved.run.dir).string()] = static_cast<Size>(entry.file_size());
  }
  return files;
}

Written RecordedRun::written() {
  Written written;
  for (const auto& [file, bytes] : files()) {
    const Size before = std::exchange(seen_[file], bytes);
    written.bytes += bytes - before;
    if (file.ends_with(".jsonl") || file.ends_with(".csv")) {
      written.rows += lines_from(run_.resolved.run.dir + "/" + file, before);
    }
  }
  return written;
}

}  // namespace lt::bench
