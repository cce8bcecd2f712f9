// What a thread computes under: where its spans, times, counts and memory go, what autograd records, how kernels
// compute where they have a choice. The engine runs each step under its caller's context with its own kernel settings,
// and each rehearsal under a silent one. So engines of one process, in one thread or several, do not meet.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "libtrain/device.h"
#include "libtrain/kernel_settings.h"
#include "libtrain/memory_owner.h"

namespace lt {

class BlockSource;
class PartClock;
class Tape;
class Timeline;
struct WorkCount;
namespace nn {
struct ForwardContext;
}

struct Context {
  // Records. Null: none.
  std::shared_ptr<Timeline> timeline;         // spans
  PartClock* clock = nullptr;                 // times by phase
  WorkCount* work = nullptr;                  // FLOPs and traffic
  std::vector<std::string>* calls = nullptr;  // collectives of groups on meta, in words
  bool counts_memory = true, counts_collectives = true;

  // Buffers that the thread makes.
  MemoryOwner owner = MemoryOwner::activations;
  std::shared_ptr<BlockSource> blocks;  // of those on blocks_device; null: the device's allocator
  Device blocks_device;
  std::string_view operation;  // what runs, for messages

  // Operations.
  Tape* tape = nullptr;  // null: nothing is recorded
  const nn::ForwardContext* forward = nullptr;
  KernelSettings kernels;

  // The calling thread's. A thread begins with one that records nothing.
  static Context& current();
  // Records and counts nothing.
  static Context silent() {
    Context context;
    context.counts_memory = context.counts_collectives = false;
    return context;
  }
};

// The thread's context is `context` until the scope ends, then again the one before.
class ContextScope {
 public:
  explicit ContextScope(Context context) : previous_(std::exchange(Context::current(), std::move(context))) {}
  ~ContextScope() { Context::current() = std::move(previous_); }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  Context previous_;
};

// The same for one member.
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
