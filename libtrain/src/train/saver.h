// When a run's state is saved, and what happens to a save that fails: the next step boundaries try again, less and less
// often, because a disk that is full may have room later. With checkpoint.async training waits for a copy of the state
// alone; a thread writes it. With checkpoint.memory_every copies in memory are made besides.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "libtrain/checkpoints/checkpoint.h"
#include "train/background_saves.h"
#include "train/memory_checkpoints.h"
#include "train/recorded_steps.h"
#include "train/run.h"
#include "train/state_copy.h"

namespace lt {

// All ranks of run.control call all of it alike.
class Saver {
 public:
  explicit Saver(Run& run);
  ~Saver();

  // Whether the state after `step`, the last one done, is to be saved: by cadence, or because a save failed.
  bool is_due(Size step);
  // Says what became of saves that ended meanwhile. Between any two steps.
  void conclude_finished();
  // Saves the state as it stands, unless that was done. A save that fails is tried again later (is_due()); throws what
  // is no DataError.
  void save();
  // The same at the end of a run: returns when all saves are over, and throws DataError where this one fails
  // repeatedly.
  void finish();

  // After each step: starts the copies of its state that are due, in memory of the hosts and, where save() will be
  // called for it, for a save beside training. On a GPU they run beside the next step, best if the step is still at
  // work.
  void start_copies(bool saves);
  // Whether save() needs the step's record. Where it does not, the thread that writes waits for it.
  bool save_needs_record() const { return background_ == nullptr; }
  // The record of `step` is written, so copies of its state may be kept.
  void recorded(Size step) { recorded_->add(step); }
  // The numbers of a step are not finite, so its state is not kept. Waits for the saves before it.
  void give_up();
  // The copies in memory are not needed any more.
  void drop_memory();

  // The newest step that this start saved or began from; -1: none.
  Size last_saved() const { return last_saved_; }

 private:
  struct Background;
  struct StartedCopy;
  struct Failure {
    int attempts;
    Size retry_at;  // step; 0: the cadence has the next save
    Error error;
  };

  bool minutes_are_over();
  SaveOutcome save_now(Size step);
  void start_copy();
  void save_in_background(Size step);
  void conclude_all();
  void conclude(const SaveOutcome& outcome);
  void conclude_success(const SaveOutcome& outcome);
  void conclude_failure(const SaveOutcome& outcome);

  Run& run_;
  const std::shared_ptr<RecordedSteps> recorded_;  // with the threads
  const std::unique_ptr<StateCopy> copy_;          // null: nothing is copied
  std::unique_ptr<Background> background_;         // null: saves block
  std::unique_ptr<MemoryCheckpoints> memory_;      // null: none
  std::optional<Failure> failure_;                 // of the newest save
  Size last_begun_ = -1, last_saved_ = -1;         // steps
  int final_attempt_ = 0;                          // to save the last step of the run; 0 before it
  std::chrono::steady_clock::time_point last_begin_ = std::chrono::steady_clock::now();
};

}  // namespace lt
