// Sharding: what all units of an engine share, from its options.
#pragma once

#include <array>

#include "libtrain/parallel/engine.h"

namespace lt {

struct Sharding {
  Strategy strategy;
  Group gather, reduce;  // the shard group twice: a group runs one collective after the other
  Group replicas;        // ranks that hold the same shard; one rank where not hybrid
  DType dtype, reduce_dtype;
  Device device;
  // Each micro-batch is reduced as it comes, also where gradients are replicated.
  bool reduce_each_micro_batch;
  bool accumulates;  // more than one micro-batch a step
  // New parameters go to the other ranks when the next step begins, not when they are there. So a step waits for
  // every collective that it started.
  bool gathers_update_late;
  // On which optimizers transform matrices, beside the stream of the operations.
  std::array<Stream, kTransformLanes> transform_streams;
  // Of parameters that are gathered in a step: gathers run between each unit's own buffer and the arena, or within the
  // former. No windows where nothing is gathered or there is no arena.
  GatherMemory gather_memory;

  void abandon() const noexcept { gather.abandon(), reduce.abandon(), replicas.abandon(); }
  std::shared_ptr<BlockSource> parameter_source() const { return gather_memory.windows; }
  std::shared_ptr<BlockSource> arena_source() const {
    return strategy.parameters == Placement::sharded ? gather_memory.windows : nullptr;
  }
};

// Splits `world` into the groups of the options. Throws UsageError for options that no engine takes.
Sharding make_sharding(const Group& world, const ParallelOptions& parallel, const StepOptions& step);

}  // namespace lt
