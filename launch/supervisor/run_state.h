// The state of a run's folder between attempts, when no rank of the run writes there.
#pragma once

#include <sys/types.h>
#include <chrono>
#include <cstddef>
#include <set>
#include <string>

#include "libtrain/config/config.h"
#include "run/restart.h"

namespace lt::launch {

class RunState {
 public:
  static constexpr std::chrono::seconds kPatience{2};

  explicit RunState(const Config& config);

  // The newest step with a sealed copy in this host's memory, and the newest with a committed checkpoint; -1: none.
  Size copied_step() const;
  Size saved_step() const;
  // What an attempt could go on from.
  struct Saved {
    std::set<Size> on_disk;  // steps with a committed checkpoint
    Size in_memory = -1;     // copied_step()
    ino_t folder = 0;        // of the run: an attempt may have moved another one aside

    bool is_empty() const { return on_disk.empty() && in_memory < 0; }
    bool has_more_than(const Saved& before) const;
  };
  Saved saved() const;
  // Whether an attempt has made the folder, or a new metrics file in it, since this object was created.
  bool is_begun() const { return marks() != before_; }
  // Whether run.json names a checkpoint, which is there, from which `checkpoint.resume=auto` begins the run again.
  bool begins_again() const;

  // The end of the whole lines of metrics.jsonl. The next attempt cuts off a torn line behind them and appends, or
  // starts a new file.
  struct MetricsEnd {
    ino_t file = 0;
    std::size_t bytes = 0;
  };
  MetricsEnd metrics_end() const;
  // Writes the restart event of an attempt if the lines after `end` hold no step. An attempt that did a step has
  // written its own event. Throws DataError if another run is at work in the folder, after `patience`: ranks of the
  // ended attempt on other hosts may hold its lock a little longer.
  void record(const run::Restart& restart, const MetricsEnd& end, std::chrono::milliseconds patience = kPatience) const;

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
