// The row of metrics.jsonl that describes one step.
#pragma once

#include "libtrain/parallel/engine.h"
#include "libtrain/record/record.h"
#include "profile/activity_clock.h"
#include "train/run.h"

namespace lt {

// A step that the host has given to the device, which may still be at it.
struct IssuedStep {
  Size step = 0;
  StepResult result;
  double lr = 0;
  Lap lap;
  CommLap comm;
  double waiting_ms = 0;  // of the host, for other ranks
};
IssuedStep issued_step(const Run& run, const StepResult& result, double lr, ActivityClock& clock);

struct FinishedStep {
  StepRecord record;
  int stop_signal = 0;  // that came to any rank, of the lowest one; 0: none
};

// Waits until the device is done with it. All ranks of run.control call it. Times are this rank's; the slowest, the
// mean and the peak of memory are those of all ranks.
FinishedStep finish_step(const Run& run, const IssuedStep& issued);

}  // namespace lt
