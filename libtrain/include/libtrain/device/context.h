// The context of a thread: where it records spans, times and counts, where it takes memory from, its tape (operations
// recorded for the backward pass), and its kernel settings.
// The engine runs a step with its caller's recorders and its own kernel settings. It runs a rehearsal (a dry run of the
// step on shapes only) under a silent context. So the engines of one process do not affect each other.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/device/device.h"
#include "libtrain/device/kernel_settings.h"
#include "libtrain/device/memory_owner.h"

namespace lt::memory {
class BlockSource;
}
namespace lt::profile {
class ActivityClock;
struct WorkCount;
}  // namespace lt::profile
namespace lt::comm {
class CollectiveRecorder;
class GraphCalls;
}  // namespace lt::comm
namespace lt::tensor {
class IdChecks;
}

namespace LT_API lt {

class Tape;
class Timeline;
namespace nn {
struct ForwardContext;
}

// One run of a unit's body (nn::Model::run()). A tensor that a body makes belongs to that body.
struct UnitBody {
  const void* model;
  std::string unit;                       // its name
  std::shared_ptr<const UnitBody> outer;  // the body in which this one runs; usually null
};

struct Context {
  // Recorders. Null: nothing is recorded, unless stated otherwise.
  std::shared_ptr<Timeline> timeline;               // spans
  profile::ActivityClock* clock = nullptr;          // times by activity
  profile::WorkCount* work = nullptr;               // FLOPs and memory traffic
  std::vector<std::string>* calls = nullptr;        // descriptions of the collectives of meta groups
  std::vector<std::string>* notices = nullptr;      // messages to the user, for example why a slower kernel runs
  comm::CollectiveRecorder* collectives = nullptr;  // null: the process's totals (libtrain/profile/collectives.h)
  // True: the ledger (bytes by owner) counts this thread's memory; the totals count its collectives.
  bool counts_memory = true, counts_collectives = true;

  // Memory that the thread allocates.
  MemoryOwner owner = MemoryOwner::activations;
  std::shared_ptr<memory::BlockSource> blocks;  // allocates on blocks_device; null: the device's allocator does
  Device blocks_device;
  std::string_view operation;         // name of the running operation, for messages
  bool* makes_host_values = nullptr;  // set to true when host values become a tensor on a device; may be null
  tensor::IdChecks* ids = nullptr;    // records out-of-range ids; null: CUDA kernels use their device's recorder

  // For operations.
  Tape* tape = nullptr;                         // null: nothing is recorded for the backward pass
  const nn::ForwardContext* forward = nullptr;  // options of the forward pass; null: the defaults
  KernelSettings kernels;
  bool in_block = false;                    // true while a block of a model runs
  std::shared_ptr<const UnitBody> body;     // the body that runs; null: none
  comm::GraphCalls* graph_calls = nullptr;  // of the CUDA graph in capture (comm/call_log.h); null: no capture

  // Adds a message to `notices`, unless it is there already or `notices` is null.
  void give_notice(std::string text) const;

  // The context of the calling thread. A new thread's context has no recorders, but counts memory and collectives.
  static Context& current();
  // A context that records and counts nothing.
  static Context silent() {
    Context context;
    context.counts_memory = context.counts_collectives = false;
    return context;
  }
};

// Replaces the thread's context. The destructor restores the previous one.
class ContextScope {
 public:
  explicit ContextScope(Context context) : previous_(std::exchange(Context::current(), std::move(context))) {}
  ~ContextScope() { Context::current() = std::move(previous_); }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  Context previous_;
};

// Replaces one member of the thread's context. The destructor restores its previous value.
template <auto kMember>
class ContextMemberScope {
 public:
  using Value = std::remove_reference_t<decltype(std::declval<Context&>().*kMember)>;

  explicit ContextMemberScope(Value value) : previous_(std::exchange(Context::current().*kMember, std::move(value))) {}
  ~ContextMemberScope() { Context::current().*kMember = std::move(previous_); }
  ContextMemberScope(const ContextMemberScope&) = delete;
  ContextMemberScope& operator=(const ContextMemberScope&) = delete;

 private:
  Value previous_;
};

}  // namespace lt
