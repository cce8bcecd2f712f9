// What stands in a run's folder between attempts, when no rank writes there.
#pragma once

#include <sys/types.h>
#include <cstddef>
#include <string>

#include "libtrain/config.h"
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

  // How far metrics.jsonl reaches; the attempt that follows writes behind it.
  std::size_t metrics_bytes() const;
  // Writes the event of an attempt that wrote from `offset` on, unless the attempt did.
  void record(const Restart& restart, std::size_t offset) const;

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
