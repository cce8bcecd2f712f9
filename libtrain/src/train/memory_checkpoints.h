// In-memory checkpoints (checkpoint.memory_every): copies of the state in shared memory of the hosts. They outlive the
// processes, so a run that is started again on the same hosts loses at most one of them.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/comm/group.h"
#include "train/background_thread.h"
#include "train/memory_mirror.h"
#include "train/recorded_steps.h"
#include "train/run_identity.h"
#include "train/state_copy.h"

namespace lt {

// All ranks call all of it alike.
class MemoryCheckpoints {
 public:
  // Takes the memory of the copies for this run and timeline, and removes all others of the run from these hosts.
  // `copy` and the engine outlive it; a copy counts once its step is `recorded`. Throws DataError, and then gives back
  // what it took.
  MemoryCheckpoints(Engine& engine, const StateCopy& copy, const Group& group, const RunIdentity& identity,
                    Size data_tokens, std::shared_ptr<RecordedSteps> recorded);
  // Waits for the copy that is under way, as a BackgroundThread does. The caller has recorded its step, or closed
  // `recorded`.
  ~MemoryCheckpoints();

  bool is_mirrored() const;
  // Copies the state after the last step; waits for the copy before. On a GPU the copy itself runs beside the next
  // step.
  void copy();
  // What the copies hold is safe elsewhere, or of no use: they go.
  void remove();

 private:
  struct Shared;
  static void conclude(Shared& shared, checkpoint::MemoryCopy& slot, const checkpoint::CopySeal& seal,
                       const Event& copied);
  void wait_for_copy();
  void stop();

  Engine& engine_;
  const StateCopy& state_copy_;
  const Group group_;
  const std::string run_;
  const std::uint64_t timeline_;
  const Size data_tokens_;
  std::shared_ptr<Shared> shared_;  // with the thread
  std::future<void> pinned_;        // the slots are known to the device
  std::unique_ptr<BackgroundThread> thread_;
};

// The copies of a run on the hosts of `group`, all ranks of which call it. Throws DataError.
void remove_memory(const Group& group, const std::string& run);

}  // namespace lt
