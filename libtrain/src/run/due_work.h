// Evaluations and samples of a run between its steps.
#pragma once

#include "run/run.h"

namespace lt::run {

// Whether something that comes every so many steps, or never for 0, comes after `step`.
constexpr bool is_due(Size every, Size step) { return every > 0 && step % every == 0; }

// All ranks must make all calls alike.
class DueWork {
 public:
  explicit DueWork(Run& run) : run_(run) {}

  bool evaluates_after(Size step) const { return is_due(run_.resolved.evaluation.every, step); }
  bool samples_after(Size step) const { return is_due(run_.resolved.sample_every, step); }
  // Evaluates the present state, and records its losses. Throws as Engine::evaluate().
  void evaluate();
  // Writes a text that the present state generates. Where no logit is finite, or the file cannot be written, the sample
  // is left out with a warning.
  void sample();
  // Removes the samples of later steps: the start has superseded what earlier attempts did beyond the present one.
  void remove_later_samples() const;
  // Evaluates and samples what was due at the present step, if an earlier start was stopped before it or lost the
  // result. Call it after remove_later_samples(), and before a missed save, because that records the loss.
  void catch_up();

 private:
  Size samples_per_evaluation() const;
  bool has_sample() const;

  Run& run_;
};

}  // namespace lt::run
