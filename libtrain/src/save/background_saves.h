// Runs saves one after the other on a background thread while training continues.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "device/background_thread.h"
#include "libtrain/comm/group.h"
#include "libtrain/error.h"

namespace lt::saver {

// The outcome of one save.
struct SaveOutcome {
  Size step = 0;
  std::string path;            // of the checkpoint; empty if none was written
  std::optional<Error> error;  // the same on all ranks
  double seconds = 0;          // from begin to end
  double stall_seconds = 0;    // time that training waited
};

class BackgroundSaves {
 public:
  // Must return the checkpoint's path, or an empty one if the save was given up. If it throws, it must throw on all
  // ranks. It may outlive this object, like any job of a BackgroundThread.
  using Job = std::function<std::string()>;

  BackgroundSaves();

  // Queues the save of `step`. Training has already waited `stall_seconds` for it.
  void add(Size step, double stall_seconds, Job job);
  // The number of saves that were added and not taken yet.
  int outstanding() const { return outstanding_; }
  // The number of saves that are finished and not taken yet.
  int finished() const;
  // Waits for the oldest save to end and returns its outcome.
  SaveOutcome take();

 private:
  struct Done;

  std::shared_ptr<Done> done_;
  int outstanding_ = 0;
  device::BackgroundThread thread_;
};

}  // namespace lt::saver
