// Makes the row of metrics.jsonl that describes one step.
#pragma once

#include "libtrain/parallel/engine.h"
#include "profile/activity_clock.h"
#include "record/record.h"
#include "run/run.h"

namespace lt::run {

// A step that the host has enqueued. The device may still be running it.
struct IssuedStep {
  Size step = 0;
  StepResult result;
  double lr = 0;
  profile::Lap lap;
  CommLap comm;
  double waiting_ms = 0;  // time that the host waited for other ranks
};

// Returns the step with the times and counts since the last call.
IssuedStep issued_step(const Run& run, const StepResult& result, double lr, profile::ActivityClock& clock);

// Times are this rank's; slowest and mean times and the memory peak are over all ranks.
struct FinishedStep {
  recorder::StepRecord record;
  int stop_signal = 0;  // of the lowest rank that received one; 0: none. Equal on all ranks
};

// Waits until the device has finished the step. All ranks of run.control must call it. Throws UsageError on all ranks
// if any rank's batch had an id outside its table.
FinishedStep finish_step(const Run& run, const IssuedStep& issued);

}  // namespace lt::run
