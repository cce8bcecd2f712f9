// A training run in a temporary folder, each step of which is recorded in one of several ways, and what that writes.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/train/config.h"
#include "profile/activity_clock.h"
#include "record/sink.h"
#include "train/run.h"

namespace lt::bench {

// What a mode records beside the step itself; see bench_recorder().
enum class RecordMode { off, metrics, sinks, trace };
inline constexpr std::array<std::string_view, 4> kRecordModes = {"off", "metrics", "sinks", "trace"};

// A folder that rank 0 makes, with token files in it, and removes. All ranks construct it.
class RunFolder {
 public:
  // Throws DataError.
  RunFolder(const World& world, Size tokens);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  bool owner_;
  std::string path_;
};

// What steps wrote, on rank 0: lines of tables (.jsonl, .csv), bytes of all files, spans of a trace.
struct Written {
  Size rows = 0, bytes = 0, spans = 0;

  void operator+=(const Written& other) { rows += other.rows, bytes += other.bytes, spans += other.spans; }
};

struct RecordedStep {
  double ms = 0;
  Written written;
};

class RecordedRun {
 public:
  // `given` on the tokens of `folder`: what it says of other data, of checkpoints, evaluation and recording does not
  // count. All ranks construct it, and make steps, alike. Throws UsageError and DataError.
  RecordedRun(const Config& given, const World& world, const RunFolder& folder);

  RecordedStep step(RecordMode mode);

  // Of the run's folder, by their paths in it, with their sizes. For rank 0.
  std::map<std::string, Size> files() const;

 private:
  Batch next_batch();
  double timed_step(RecordMode mode);
  Written written();

  Run run_;
  ActivityClock clock_{run_.device()};
  std::vector<std::unique_ptr<Sink>> sinks_;  // of rank 0
  std::map<std::string, Size> seen_;          // files() before the step
};

}  // namespace lt::bench
