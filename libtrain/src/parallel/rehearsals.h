// The results of an engine's rehearsals (dry runs of a pass on shapes only), by pass and shapes of its batch, and the
// arena in which passes run. The ranks compare these results before a pass runs.
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

// The form in which a pass runs.
struct PassForm {
  std::vector<bool> in_e4m3 = {};  // by unit: true if gathered in e4m3 (FP8, and its values are not read); empty: none
  bool gradients_in_forward = true;  // computed by the head; false if loss() returns another tensor than the head's
  bool makes_host_values = false;    // loss() makes tensors from values of the host
  bool has_fp8_matmuls = false;
};

// The result of one rehearsal.
struct Rehearsed {
  MemoryPlan plan;
  PassForm form;
  std::vector<std::string> calls;  // its collectives, one line each
};

class Rehearsals {
 public:
  // Rehearses a pass on the shapes of a batch, on the meta device.
  using Rehearse = std::function<Rehearsed(const Batch& shapes)>;

  // The arena comes from `source`, or from the device's allocator if `source` is null.
  Rehearsals(Device device, std::shared_ptr<memory::BlockSource> source) : memory_(device, std::move(source)) {}

  // Rehearses the pass `name` for batches like `batch`, unless that is already done. Returns the key of name and
  // shapes. Not a collective. If it throws, call forget_new().
  std::string add(const std::string& name, const Batch& batch, const Rehearse& rehearse);
  // Forgets the passes that were added since the last compare(), so that they are rehearsed again.
  void forget_new();
  // Compares the passes that were added since the last call and returns their keys. Throws UsageError on all ranks if
  // their collectives differ between ranks, and InternalError if their offsets differ and the arena is in windows of
  // group `windows` (null: it is not). All ranks then forget them. Of more than kMostPlans plans, the least recently
  // used ones are dropped. All ranks must call it.
  std::vector<std::string> compare(const Group& control, const Group* windows);
  // Runs `reserve`, which must call reserve(), for the passes of these keys. If it throws on this rank, forgets the
  // passes and frees the arena, so that a later pass needs memory only for itself.
  void reserve_for(const std::vector<std::string>& keys, const std::function<void()>& reserve);
  // Makes the arena large enough for the largest plan. See StepMemory::reserve().
  void reserve() { memory_.reserve(); }
  // The form of a pass that was added and compared. Makes the pass the most recently used one.
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
  std::deque<std::string> compared_;       // keys (plan_key()), the most recently used one last
};

}  // namespace lt::parallel
