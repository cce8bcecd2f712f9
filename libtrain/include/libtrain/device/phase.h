// The phase of this process. It tells the watchdog how long the process may go without progress: collective_s (see
// libtrain/watchdog/watchdog.h); 10 times as long in evaluation, sampling, save, load and records; 30 times in start.
// A program with its own training loop should open a PhaseScope around long work that it does without its peers.
// Otherwise, if peers wait for the rank beyond this limit, the watchdog takes it for hung and ends the run.
#pragma once

#include <cstdint>

#include "libtrain/api.h"
#include "libtrain/device/device.h"

namespace LT_API lt {

enum class Phase : std::uint8_t {
  none,
  start,
  step,
  data,
  forward,
  backward,
  update,
  evaluation,
  sampling,
  save,
  load,
  records,
};

// Puts this thread in `phase` until the scope ends. If several threads are in phases, the phase with the longest limit
// applies to the process. A scope inside a BackgroundScope, or for work on the meta device, does nothing.
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase, Device device = kCpu);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Phase previous_;
  bool counts_;
};

// Marks this thread as a background thread, for example one that writes checkpoints. The watchdog does not take its
// collectives and phases for progress of the process, unless another thread is in an AwaitBackgroundScope.
class BackgroundScope {
 public:
  BackgroundScope();
  ~BackgroundScope();
  BackgroundScope(const BackgroundScope&) = delete;
  BackgroundScope& operator=(const BackgroundScope&) = delete;

 private:
  bool previous_;
};

// Says that this thread waits for background threads. During the scope, their progress is progress of the process.
class AwaitBackgroundScope {
 public:
  AwaitBackgroundScope();
  ~AwaitBackgroundScope();
  AwaitBackgroundScope(const AwaitBackgroundScope&) = delete;
  AwaitBackgroundScope& operator=(const AwaitBackgroundScope&) = delete;
};

}  // namespace lt
