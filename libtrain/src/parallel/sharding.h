// Sharding: the options, groups and streams that all units of an engine share.
#pragma once

#include <array>

#include "libtrain/parallel/engine.h"

namespace lt::parallel {

struct Sharding {
  Strategy strategy;
  Group control;         // all ranks; a duplicate of the shard group if that has all ranks, so that they share windows
  Group gather, reduce;  // the shard group twice, because a group runs its collectives one after the other
  Group replicas;        // ranks that hold the same shard; one rank if not hybrid
  DType dtype;
  DType reduce_dtype, replica_dtype;  // of gradients in transit within the shard group, and between replicas
  Device device;
  // Gradients are reduced after every micro-batch, even if they are replicated.
  bool reduce_each_micro_batch;
  // Determinism::elastic: sums over micro-batches, ranks and elements have an order that the number of ranks does not
  // change. Units then consist of kMostElasticRanks equal pieces, of which every shard has whole ones.
  bool elastic;
  Size accum;  // micro-batches per step on a rank
  // The streams on which optimizers transform matrices while the compute stream runs.
  std::array<Stream, kTransformLanes> transform_streams;
  // Windows for memory that peers write: gathered parameters and gradients, losses, sums of squares, and the arena, in
  // which parts of gradients arrive. There are no windows if tensors are allocated separately.
  PeerMemory peer_memory;
  // The block for all units' full buffers that are gathered in place: parameters, or gradients. Null until
  // Engine::Impl::make_shared() makes it.
  std::shared_ptr<memory::BlockSource> in_place = {};

  // Parts into which units are divided: shards, or pieces of them.
  int parts() const { return elastic ? kMostElasticRanks : control.size(); }
  // Replicas add the sums of their shard groups after every micro-batch, not once in a step.
  bool replicas_add_each_micro_batch() const { return elastic && replicas.size() > 1; }

  void abandon() const noexcept { gather.abandon(), reduce.abandon(), replicas.abandon(), control.abandon(); }
  std::shared_ptr<memory::BlockSource> arena_source() const { return peer_memory.windows; }
  // For memory that is gathered over `control`.
  std::shared_ptr<memory::BlockSource> control_source() const {
    return control.size() == gather.size() ? peer_memory.windows : nullptr;
  }
  // For replicated parameters that are gathered in place. Sharded ones are gathered in the arena.
  std::shared_ptr<memory::BlockSource> parameter_source() const {
    return strategy.parameters == Placement::replicated && gathers_parameters() ? in_place : nullptr;
  }
  std::shared_ptr<memory::BlockSource> gradient_source() const { return gathers_parameters() ? nullptr : in_place; }
  // False: every rank updates all parameters, from gathered gradients.
  bool gathers_parameters() const { return strategy.optimizer == Placement::sharded; }
};

// Throws UsageError for invalid options. If the ranks' devices differ, only some ranks may throw.
void require_trainable(const Group& world, const ParallelOptions& parallel, const EngineOptions& step);
// Splits `world` into the groups that the options ask for. All ranks of `world` must call it.
Sharding make_sharding(const Group& world, const ParallelOptions& parallel, const EngineOptions& step);

}  // namespace lt::parallel
