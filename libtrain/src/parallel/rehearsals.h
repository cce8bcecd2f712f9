// What rehearsals of an engine's passes found, by the pass and the shapes of its batch, and the arena in which they
// run. The ranks compare what they found before a pass runs.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/comm/group.h"
#include "libtrain/memory/memory_plan.h"
#include "libtrain/tensor/batch.h"
#include "parallel/step_memory.h"

namespace lt::parallel {

// How a pass runs.
struct PassForm {
  std::vector<bool> in_e4m3 = {};  // by unit: gathered in e4m3, in FP8 if none of its values is read; empty: none is
  bool gradients_in_forward;       // the head computes them, unless loss() returns another tensor than the head's loss
  bool makes_host_values = false;  // loss() makes tensors from values of the host
  bool has_fp8_products = false;
};

// What one rehearsal found.
struct Rehearsed {
  MemoryPlan plan;
  PassForm form;
  std::vector<std::string> calls;  // its collectives, a line each
};

class Rehearsals {
 public:
  // Rehearses a pass on the shapes of a batch, on the meta device.
  using Rehearse = std::function<Rehearsed(const Batch& shapes)>;

  // The arena comes from `source`, or from the device's allocator if `source` is null.
  Rehearsals(Device device, std::shared_ptr<memory::BlockSource> source) : memory_(device, std::move(source)) {}

  // Rehearses the pass `name` for batches like `batch`, unless that is already done, and returns their key. Not
  // collective. If it throws, forget_new().
  std::string add(const std::string& name, const Batch& batch, const Rehearse& rehearse);
  // The passes that were added since the last compare() are rehearsed again.
  void forget_new();
  // Requires that all that was added since the last call makes the same collectives on all ranks and, with the arena in
  // windows of the group `windows` (null: it is not), has the same offsets. Returns the keys of what was added. Throws
  // UsageError and InternalError, on all ranks, which then forget it. Beyond kMostPlans, the plans that were used
  // longest ago are dropped.
  std::vector<std::string> compare(const Group& control, const Group* windows);
  // Runs `reserve`, which calls reserve(), for the passes of these keys. If it throws, they are forgotten, and the room
  // is freed where this rank had it: no later pass asks for more than it needs itself.
  void reserve_for(const std::vector<std::string>& keys, const std::function<void()>& reserve);
  // Makes room for the largest plan.
  void reserve() { memory_.reserve(); }
  // The form of a pass that was added and compared. It counts as used now.
  const PassForm& use(const std::string& key);
  // Runs `body`, the pass of this key, in the arena.
  template <class F>
  void run(const std::string& key, F&& body) {
    memory_.run(memory_.plans().at(key), std::forward<F>(body));
  }

  const StepMemory& memory() const { return memory_; }

 private:
  static constexpr std::size_t kMostPlans = 256;
  struct New {
    std::string name, key;  // plan_key()
    std::vector<std::string> calls;
  };

  void forget(const std::string& key);

  StepMemory memory_;
  std::map<std::string, PassForm> forms_;  // by plan_key()
  std::vector<New> new_;                   // since the last compare()
  std::deque<std::string> compared_;       // by plan_key(), the one used last at the end
};

}  // namespace lt::parallel
