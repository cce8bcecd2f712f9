// In-memory checkpoints (checkpoint.memory_every): copies of the state in the hosts' shared memory. They outlive the
// processes, so a run that restarts on the same hosts loses only the steps since the last complete copy.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "device/background_thread.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/comm/group.h"
#include "save/memory_mirror.h"
#include "save/recorded_steps.h"
#include "save/run_identity.h"
#include "save/state_copy.h"

namespace lt::saver {

// Every call is a collective: all ranks must make the same calls.
class MemoryCheckpoints {
 public:
  // Allocates the copies for this run and timeline, and removes all other copies of the run from these hosts. `copy`
  // and the engine must outlive this object. A copy becomes valid once its step is `recorded`. If it throws DataError,
  // it has freed its allocations.
  MemoryCheckpoints(Engine& engine, const StateCopy& copy, const Group& group, const RunIdentity& identity,
                    Size data_tokens, std::shared_ptr<RecordedSteps> recorded);
  // True if the constructor would keep the copies of an earlier start until newer ones are sealed. Otherwise it removes
  // them, because some ranks have moved to other hosts or hold other parts of the state.
  static bool keeps_copies(const StateCopy& copy, const Group& group, const RunIdentity& identity);
  // Waits for the copy in flight, as a BackgroundThread does. The caller must record that copy's step, or close
  // `recorded`, before.
  ~MemoryCheckpoints();

  bool is_mirrored() const;
  // Copies the state after the last step. Waits until the previous copy is complete. On a GPU the copy runs during the
  // next step. `program` is read once the step is recorded, and must not change from then on.
  void copy(std::shared_ptr<const State> program);
  // Removes the copies. Call it when their state is saved elsewhere or not needed.
  void remove();

 private:
  struct Shared;
  static void conclude(Shared& shared, checkpoint::MemoryCopy& slot, const checkpoint::CopySeal& seal,
                       const State& program, const Event& copied);
  void wait_for_copy();
  void stop();

  Engine& engine_;
  const StateCopy& state_copy_;
  const Group group_;
  const std::string run_;
  const std::uint64_t timeline_;
  const Size data_tokens_;
  std::shared_ptr<Shared> shared_;  // shared with the thread
  std::future<void> pinned_;        // ready when the slots are pinned
  std::unique_ptr<device::BackgroundThread> thread_;
};

// Removes the copies of a run from the hosts of `group`. All ranks of `group` must call it. Throws DataError.
void remove_memory(const Group& group, const std::string& run);

}  // namespace lt::saver
