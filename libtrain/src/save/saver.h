// Decides when a run's state is saved, and retries failed saves at later step boundaries, at growing intervals, because
// a full disk may have room later. With checkpoint.async training waits only for a copy of the state, which a thread
// writes to disk. With checkpoint.memory_every it also makes copies in memory.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/comm/group.h"
#include "libtrain/config/config.h"
#include "libtrain/parallel/engine.h"
#include "record/run_log.h"
#include "save/background_saves.h"
#include "save/memory_checkpoints.h"
#include "save/recorded_steps.h"
#include "save/run_identity.h"
#include "save/state_copy.h"

namespace lt::saver {

// The run whose state is saved. What is referred to must outlive the saver.
struct SavedRun {
  Engine& engine;
  const Group &control, &world;  // all ranks; the second for checkpoints in the background
  const CheckpointConfig& policy;
  const std::string& run_dir;
  const RunIdentity& identity;
  recorder::RunLog& log;
  Size steps;                       // of the whole run
  Size data_tokens;                 // of the training data; 0: unknown
  bool copies_to_memory;            // whether it keeps copies of its state in the hosts' memory
  Size newest_on_disk;              // step of its newest valid checkpoint; -1: none
  std::optional<Size> from_memory;  // the step of the copies in memory from which it goes on
  std::function<checkpoint::RunState(const LossScale&)> state;  // that a checkpoint of now has, with this loss scale
};

// All ranks of `control` must make all calls alike.
class Saver {
 public:
  explicit Saver(SavedRun run);
  ~Saver();

  // Whether the state after `step`, the last one done, must be saved: by cadence, or because a save failed.
  bool is_due(Size step);
  // Whether the run goes on from a copy in memory, made when or after a save was due that is not on disk.
  bool has_missed() const;
  // Begins what checkpoint.memory_every asks for. If copies that the run resumed from do not fit this start, it saves
  // first, and throws DataError if that fails: the copies then stay. Call it before the first step, and after what a
  // save should record.
  void begin_memory_copies();
  // Reports the outcome of saves that have ended. Call it between any two steps.
  void conclude_finished();
  // Saves the current state unless it is already saved. A save that fails with DataError is retried later (is_due());
  // other errors are thrown.
  void save();
  // Saves at the end of a run. Returns when all saves are over; throws DataError if this save fails repeatedly.
  void finish();

  // Call it after each step. Starts the copies of its state that are due: the in-memory checkpoint and, if `saves` says
  // that save() follows, the copy for a background save. On a GPU the copies run beside the next step; best is to call
  // it while the device still works on the current one.
  void start_copies(bool saves);
  // Whether the step must be recorded before save(). If not, the thread that writes waits for the record.
  bool save_needs_record() const { return background_ == nullptr; }
  // Call it after the record of `step` is written. Copies of its state may then be kept.
  void recorded(Size step) { recorded_->add(step); }
  // Call it if the numbers of a step are not finite. Its state is not kept. Waits for the earlier saves.
  void give_up();
  // Removes the copies in memory when they are no longer needed.
  void drop_memory();

  // The newest step that this start saved or began from; -1: none.
  Size last_saved() const { return last_saved_; }

 private:
  struct Background;
  struct StartedCopy;
  struct Failure {
    int attempts;
    Size retry_at;  // step; 0: the next save follows by cadence
    Error error;
  };

  bool minutes_are_over();
  SaveOutcome save_now(Size step);
  void save_before_copies_go();
  void start_copy();
  void save_in_background(Size step);
  void conclude_all();
  void conclude(const SaveOutcome& outcome);
  void conclude_success(const SaveOutcome& outcome);
  void conclude_failure(const SaveOutcome& outcome);

  const SavedRun run_;
  const std::shared_ptr<RecordedSteps> recorded_;  // shared with the threads
  const std::unique_ptr<StateCopy> copy_;          // null: nothing is copied
  std::unique_ptr<Background> background_;         // null: saves block
  std::unique_ptr<MemoryCheckpoints> memory_;      // null: none
  std::optional<Failure> failure_;                 // set if the newest save failed
  Size last_begun_, last_saved_;                   // steps; -1: none
  int final_attempt_ = 0;                          // number of the attempt at the end of the run; 0 before the end
  std::chrono::steady_clock::time_point last_begin_ = std::chrono::steady_clock::now();
};

}  // namespace lt::saver
