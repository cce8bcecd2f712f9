// Access to an engine's internals for tests.
#pragma once

#include "libtrain/dtype.h"
#include "libtrain/parallel/engine.h"

namespace lt::parallel {

// Engines that this thread makes during the scope allocate each tensor of a step separately, not in an arena. If a step
// gives equal bits with and without an arena, no two of the arena's live blocks overlap.
class SeparateAllocationScope {
 public:
  SeparateAllocationScope() { is_open_ = true; }
  ~SeparateAllocationScope() { is_open_ = false; }
  SeparateAllocationScope(const SeparateAllocationScope&) = delete;
  SeparateAllocationScope& operator=(const SeparateAllocationScope&) = delete;

  static bool is_open() { return is_open_; }

 private:
  inline static thread_local bool is_open_ = false;
};

struct EngineForTests {
  // How many steps the engine ran as a CUDA graph.
  static Size graph_launches(const Engine& engine);
};

}  // namespace lt::parallel
