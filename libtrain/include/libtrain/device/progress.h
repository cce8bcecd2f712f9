// What this process is at, for whoever watches it: the phase, the step, and that it gets on. Written by the work
// itself, read by the watchdog's thread. A program with a loop of its own says with a PhaseScope where it works long
// without its peers, so that these are not taken for hung while they wait for it.
#pragma once

#include <cstdint>
#include <string_view>

#include "libtrain/device/device.h"

namespace lt {

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
inline constexpr int kPhases = 12;
// "forward", "evaluation"; "no phase" of none.
std::string_view to_string(Phase phase);
// How many times watchdog.collective_s a rank may be in the phase without progress: 1 within a step, more where long
// work of the host alone is ordinary.
double patience(Phase phase);

// The process is in `phase` until the scope ends, then again where it was before. One thread at a time has scopes;
// those of a BackgroundScope do nothing, nor do those of work on the meta device.
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

// Collectives and phases of this thread during the scope are not what the process's step waits for: a writer of
// checkpoints beside the training. They count all the same while another thread has an AwaitBackgroundScope.
class BackgroundScope {
 public:
  BackgroundScope();
  ~BackgroundScope();
  BackgroundScope(const BackgroundScope&) = delete;
  BackgroundScope& operator=(const BackgroundScope&) = delete;

 private:
  bool previous_;
};

// This thread waits for those with a BackgroundScope: as long as they get on, so does the process.
class AwaitBackgroundScope {
 public:
  AwaitBackgroundScope();
  ~AwaitBackgroundScope();
  AwaitBackgroundScope(const AwaitBackgroundScope&) = delete;
  AwaitBackgroundScope& operator=(const AwaitBackgroundScope&) = delete;
};

}  // namespace lt
