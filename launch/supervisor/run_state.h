// The state of a run's folder between attempts, when no rank of the run writes there.
#pragma once

#include <sys/types.h>
#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <string>

#include "libtrain/config/config.h"
#include "run/restart.h"

namespace lt::launch {

class RunState {
 public:
  static constexpr std::chrono::seconds kPatience{2};

  explicit RunState(const Config& config);

  // The newest step with a sealed copy in this host's memory; -1 if there is none.
  Size copied_step() const;
  // The newest step with a committed checkpoint; -1 if there is none.
  Size saved_step() const;
  // The states from which an attempt could continue.
  struct Saved {
    std::set<Size> on_disk;  // steps with a committed checkpoint
    Size in_memory = -1;     // copied_step()
    ino_t folder = 0;        // inode of the run's folder; changes if an attempt moves the folder aside

    bool is_empty() const { return on_disk.empty() && in_memory < 0; }
    bool has_more_than(const Saved& before) const;
  };
  Saved saved() const;
  // True if an attempt has created the folder, or a new metrics file in it, since this object was created.
  bool is_begun() const { return marks() != before_; }
  // True if run.json names an existing checkpoint from which `checkpoint.resume=auto` begins the run again.
  bool begins_again() const;

  // The end of the last complete line of metrics.jsonl. The next attempt cuts off a torn line after it and appends, or
  // starts a new file.
  struct MetricsEnd {
    ino_t file = 0;
    std::size_t bytes = 0;
  };
  MetricsEnd metrics_end() const;
  // True if the lines after `begin` say that the run itself stopped before its last step and saved its state: for
  // train.max_minutes or a signal.
  bool was_stopped(const MetricsEnd& begin) const;
  // Writes the restart event of an attempt if the lines after `end` hold no step: an attempt that completed a step has
  // written the event itself. Waits up to `patience` for the folder's lock, because ranks of the ended attempt on other
  // hosts may hold it a little longer. Throws DataError if another run holds the lock.
  void record(const run::Restart& restart, const MetricsEnd& end, std::chrono::milliseconds patience = kPatience) const;

 private:
  struct Marks {
    ino_t folder = 0, metrics = 0;
    bool operator==(const Marks&) const = default;
  };
  Marks marks() const;
  // Where the lines after `end` begin in metrics.jsonl, which may be a new file; nullopt if there is none.
  std::optional<std::size_t> begin_after(const MetricsEnd& end) const;

  std::string folder_, metrics_, checkpoints_;
  Marks before_;
};

}  // namespace lt::launch
