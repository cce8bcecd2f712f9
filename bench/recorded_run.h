// A training run in a temporary folder. Each step is recorded in one of several modes, and its output is counted.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/comm/world.h"
#include "libtrain/config/config.h"
#include "libtrain/data/batch_source.h"
#include "libtrain/nn/module.h"
#include "profile/activity_clock.h"
#include "record/sink.h"
#include "run/run.h"

namespace lt::bench {

// How much is recorded beside the step itself; see bench_recorder().
enum class RecordMode { off, metrics, sinks, trace };
inline constexpr std::array<std::string_view, 4> kRecordModes = {"off", "metrics", "sinks", "trace"};

// A temporary folder with token files, made and removed by rank 0. Every rank must construct it.
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

// Output of steps, on rank 0: lines of tables (.jsonl, .csv), bytes of all files, spans of a trace.
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
  // Runs `given` on the tokens of `folder`. Its settings for other data, checkpoints, evaluation and recording are
  // ignored. Every rank must construct it and make the same steps. Throws UsageError and DataError.
  RecordedRun(const Config& given, const World& world, const RunFolder& folder);

  RecordedStep step(RecordMode mode);

  // Sizes of the files in the run's folder that steps write to, by relative path. Call it on rank 0 only.
  std::map<std::string, Size> files() const;

 private:
  RecordedRun(const Resolved& resolved, const World& world);

  Batch next_batch();
  double timed_step(RecordMode mode);
  Written written();

  const std::unique_ptr<nn::Model> model_;
  const std::unique_ptr<BatchSource> batches_;  // of the model's row; null: those of the folder
  run::Run run_;
  profile::ActivityClock clock_{run_.device()};
  std::vector<std::unique_ptr<recorder::Sink>> sinks_;  // on rank 0 only
  std::map<std::string, Size> seen_;                    // files() before the step
};

}  // namespace lt::bench
