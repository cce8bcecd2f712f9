// Saves that run one after the other on a thread of their own, while training goes on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "libtrain/comm/group.h"
#include "libtrain/error.h"
#include "train/background_thread.h"

namespace lt {

// What became of one save.
struct SaveOutcome {
  Size step = 0;
  std::string path;            // of the checkpoint; empty where there is none
  std::optional<Error> error;  // the same on all ranks
  double seconds = 0;          // from its begin to its end
  double stall_seconds = 0;    // for which training waited
};

class BackgroundSaves {
 public:
  // Throws as a save does, on all ranks alike; returns the checkpoint's path, empty where it was given up. It may
  // outlive this object, as any job of a BackgroundThread.
  using Job = std::function<std::string()>;

  BackgroundSaves();

  // The save of `step`, after those before it; training has waited `stall_seconds` for it.
  void add(Size step, double stall_seconds, Job job);
  // Added and not taken yet.
  int outstanding() const { return outstanding_; }
  // Over and not taken yet.
  int finished() const;
  // The oldest one's outcome; waits for its end.
  SaveOutcome take();

 private:
  struct Done;

  std::shared_ptr<Done> done_;
  int outstanding_ = 0;
  BackgroundThread thread_;
};

}  // namespace lt
