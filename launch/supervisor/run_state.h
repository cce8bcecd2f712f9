// What stands in a run's folder between attempts, when no rank writes there.
#pragma once

#include <sys/types.h>
#include <cstddef>
#include <string>

#include "libtrain/train/config.h"
#include "train/restart.h"

namespace lt::launch {

class RunState {
 public:
  explicit RunState(const Config& config);

  // The newest step of which a checkpoint was committed, or a copy sealed in memory of this host; -1: none.
  Size newest_step() const;
  // The latter alone, and the former.
  Size copied_step() const;
  Size saved_step() const;
  // Whether an attempt made the folder, or began to write in it, since this object was made.
  bool is_begun() const { return marks() != before_; }

  // The end of metrics.jsonl; the attempt that follows writes behind it, or to a new file.
  struct MetricsEnd {
    ino_t file = 0;
    std::size_t bytes = 0;
  };
  MetricsEnd metrics_end() const;
  // Writes the event of an attempt that did no step by the lines behind `end`. The others write theirs.
  void record(const Restart& restart, const MetricsEnd& end) const;

 private:
  struct Marks {
    ino_t folder = 0, metrics = 0;
    bool operator==(const Marks&) const = default;
  };
  Marks marks() const;

  std::string folder_, metrics_, checkpoints_;
  Marks before_;
};

}  // namespace lt::launch
