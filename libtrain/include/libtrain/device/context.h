// The context of a thread: the destinations of its spans, times, counts and memory, its tape, and its kernel settings.
// The engine runs a step with the recorders of its caller's context and its own kernel settings, and a rehearsal under
// a silent one, so the engines of one process do not affect each other.
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

struct Context {
  // Recorders; null records nothing unless stated otherwise.
  std::shared_ptr<Timeline> timeline;               // spans
  profile::ActivityClock* clock = nullptr;          // times by activity
  profile::WorkCount* work = nullptr;               // FLOPs and traffic
  std::vector<std::string>* calls = nullptr;        // descriptions of the collectives of meta groups
  std::vector<std::string>* notices = nullptr;      // messages to the user, such as that a slower kernel runs and why
  comm::CollectiveRecorder* collectives = nullptr;  // null: the process's totals (libtrain/profile/collectives.h)
  bool counts_memory = true, counts_collectives = true;

  // For buffers that the thread allocates.
  MemoryOwner owner = MemoryOwner::activations;
  std::shared_ptr<memory::BlockSource> blocks;  // source of buffers on blocks_device; null: the device's allocator
  Device blocks_device;
  std::string_view operation;         // the running operation, for messages
  bool* makes_host_values = nullptr;  // if not null: set when values of the host become a tensor on a device
  tensor::IdChecks* ids = nullptr;    // records ids outside their table; null: CUDA kernels use their device's

  // Operations.
  Tape* tape = nullptr;  // null: records nothing
  const nn::ForwardContext* forward = nullptr;
  KernelSettings kernels;
  bool in_block = false;                    // a block of a model runs
  const void* model = nullptr;              // whose unit's body runs
  std::string_view unit;                    // the unit's name
  comm::GraphCalls* graph_calls = nullptr;  // of the CUDA graph that is captured (comm/call_log.h); null: none is

  // Adds a message to `notices` unless it is already there.
  void give_notice(std::string text) const;

  // The context of the calling thread. A new thread's context has no recorders; it counts memory and collectives.
  static Context& current();
  // Records and counts nothing.
  static Context silent() {
    Context context;
    context.counts_memory = context.counts_collectives = false;
    return context;
  }
};

// Sets the thread's context, and restores the previous one at the end of the scope.
class ContextScope {
 public:
  explicit ContextScope(Context context) : previous_(std::exchange(Context::current(), std::move(context))) {}
  ~ContextScope() { Context::current() = std::move(previous_); }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  Context previous_;
};

// Sets one member of the context for the scope.
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
