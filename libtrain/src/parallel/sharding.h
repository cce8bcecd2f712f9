// Sharding: the options, groups and streams that all units of an engine share.
#pragma once

#include <array>

#include "libtrain/parallel/engine.h"

namespace lt {

struct Sharding {
  Strategy strategy;
  Group gather, reduce;  // the shard group twice, because a group runs one collective after the other
  Group replicas;        // ranks that hold the same shard; one rank if not hybrid
  DType dtype, reduce_dtype;
  Device device;
  // Each micro-batch is reduced as it comes, even if gradients are replicated.
  bool reduce_each_micro_batch;
  bool accumulates;  // more than one micro-batch per step
  // New parameters go to the other ranks when the next step begins, not as soon as they are ready. So a step waits for
  // every collective that it started.
  bool gathers_update_late;
  // The streams on which optimizers transform matrices, beside the compute stream.
  std::array<Stream, kTransformLanes> transform_streams;
  // For parameters that are gathered in a step. Gathers run from each unit's own buffer to the arena, or within that
  // buffer. There are no windows if nothing is gathered or if there is no arena.
  GatherMemory gather_memory;

  void abandon() const noexcept { gather.abandon(), reduce.abandon(), replicas.abandon(); }
  std::shared_ptr<BlockSource> parameter_source() const { return gather_memory.windows; }
  std::shared_ptr<BlockSource> arena_source() const {
    return strategy.parameters == Placement::sharded ? gather_memory.windows : nullptr;
  }
};

// Splits `world` into the groups that the options ask for. Throws UsageError for options that no engine accepts.
Sharding make_sharding(const Group& world, const ParallelOptions& parallel, const StepOptions& step);

}  // namespace lt
