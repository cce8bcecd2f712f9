// Evaluations and samples of a run between its steps.
#pragma once

#include "run/run.h"

namespace lt::run {

// True if `step` is a multiple of `every`; 0 disables.
constexpr bool is_due(Size every, Size step) { return every > 0 && step % every == 0; }

// All ranks must make the same calls.
class DueWork {
 public:
  explicit DueWork(Run& run) : run_(run) {}

  bool evaluates_after(Size step) const { return is_due(run_.resolved.evaluation.every, step); }
  bool samples_after(Size step) const { return is_due(run_.resolved.sample_every, step); }
  // Evaluates the current state and records its losses. Throws the errors of Engine::evaluate().
  void evaluate();
  // Generates a text with the current state and writes it to a file. If no logit is finite, or the file cannot be
  // written, logs a warning instead.
  void sample();
  // Removes the samples of steps after the current one, which earlier attempts have left.
  void remove_later_samples() const;
  // Evaluates and samples if that was due at the current step and an earlier start has not done it or lost the result.
  // Call it after remove_later_samples(), and before a missed save, because a save records the loss.
  void catch_up();

 private:
  Size samples_per_evaluation() const;
  bool has_sample() const;

  Run& run_;
};

}  // namespace lt::run
