// The phase of this process, by which the watchdog knows how long it may be without progress. A program with its own
// loop should open a PhaseScope around long work without its peers; otherwise the waiting peers count as hung.
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

// Puts this thread in `phase` until the scope ends. If several threads are in phases, the process is in the most
// patient of them. Scopes inside a BackgroundScope, and for work on the meta device, do nothing.
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

// Excludes this thread's collectives and phases from the progress of the step, for example in a thread that writes
// checkpoints. They count nevertheless while another thread has an AwaitBackgroundScope.
class BackgroundScope {
 public:
  BackgroundScope();
  ~BackgroundScope();
  BackgroundScope(const BackgroundScope&) = delete;
  BackgroundScope& operator=(const BackgroundScope&) = delete;

 private:
  bool previous_;
};

// This thread waits for the threads with a BackgroundScope: while they advance, so does the process.
class AwaitBackgroundScope {
 public:
  AwaitBackgroundScope();
  ~AwaitBackgroundScope();
  AwaitBackgroundScope(const AwaitBackgroundScope&) = delete;
  AwaitBackgroundScope& operator=(const AwaitBackgroundScope&) = delete;
};

}  // namespace lt
