// Decides when a run's state is saved. Retries failed saves after later steps, at growing intervals, because space may
// be freed on a full disk. With checkpoint.async training waits only for a copy of the state, which a thread writes to
// disk. If saves are due by minutes alone, the memory for these copies is taken when half of the time has passed, so
// that short runs do without. With checkpoint.memory_every it also makes copies in memory.
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

// The run whose state is saved. All referenced objects must outlive the saver.
struct SavedRun {
  Engine& engine;
  const Group &control, &world;  // all ranks; `world` for checkpoints in the background
  const CheckpointConfig& policy;
  const std::string& run_dir;
  const RunIdentity& identity;
  recorder::RunLog& log;
  Size steps;                       // of the whole run
  Size data_tokens;                 // of the training data; 0: unknown
  bool copies_to_memory;            // true if it keeps copies of its state in the hosts' memory
  Size newest_on_disk;              // step of its newest valid checkpoint; -1: none
  std::optional<Size> from_memory;  // step of the copies in memory from which it continues; nullopt: none
  bool may_skip = false;            // it continues after steps without an update in any dtype (train.skip_nonfinite)
  // The program's own state. After a step it may change until recorded() is called for the step.
  const State& program;
  // Returns the state for a checkpoint at this time, without the program's.
  std::function<checkpoint::RunState(const LossScale&)> state;
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

// All ranks of `control` must make the same calls.
class Saver {
 public:
  explicit Saver(SavedRun run);
  ~Saver();

  // True if the state after `step`, the last step done, must be saved: by cadence, or to retry a failed save.
  bool is_due(Size step);
  // True if the run continues from a copy in memory, and the last save due up to that copy's step is not on disk.
  bool has_missed() const;
  // Begins the copies of checkpoint.memory_every. If this start cannot keep the copies from which the run continued
  // (MemoryCheckpoints::keeps_copies()), saves to disk first; throws DataError, and keeps the copies, if that fails.
  // Call it before the first step, and after an evaluation whose loss a save should record.
  void begin_memory_copies();
  // Reports the outcome of saves that have ended. Call it between any two steps.
  void conclude_finished();
  // Saves the current state unless it is already saved. A save that fails with DataError is retried later (is_due());
  // throws other errors.
  void save();
  // Saves at the end of a run. Returns when all saves are over. Throws DataError if this save fails repeatedly.
  void finish();

  // Call it after each step, best while the device still runs it. Starts the due copies of the state: the in-memory
  // checkpoint and, if `saves` (save() follows), the copy for a background save. On a GPU the copies run during the
  // next step.
  void start_copies(bool saves);
  // True if the step must be recorded before save(). Otherwise the thread that writes waits for the record. Ask after
  // is_due().
  bool save_needs_record() const { return !saves_in_background(); }
  // Call it after the record of `step` is written and the program has seen the step. Only then do copies of its state
  // become valid.
  void recorded(Size step);
  // Call it if the numbers of a step are not finite. Drops its state, and waits for the earlier saves.
  void give_up();
  // Removes the copies in memory. Call it when they are not needed any longer.
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

  enum class Minutes { early, half_over, over };

  std::shared_ptr<const State> program_state();
  Minutes minutes_passed() const;
  void take_memory();
  bool saves_in_background() const;  // equal on all ranks
  void require_memory_or_block();
  double seconds_since(std::chrono::steady_clock::time_point begin) const;
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
  const std::unique_ptr<StateCopy> copy_;          // null: no copies are made
  std::unique_ptr<Background> background_;         // null: saves block training
  std::unique_ptr<MemoryCheckpoints> memory_;      // null: no copies in memory
  std::optional<Failure> failure_;                 // set if the newest save failed
  // The program's state after the last step that is saved or copied. Threads read it once the step is recorded.
  struct {
    Size step = -1;
    std::shared_ptr<State> state;
  } program_;
  Size last_begun_, last_saved_;  // steps; -1: none
  double waited_s_ = 0;           // for memory for the next copy
  int final_attempt_ = 0;         // number of the attempt at the end of the run; 0 before the end
  std::chrono::steady_clock::time_point last_begin_;
};

}  // namespace lt::saver
