// Checks an engine's options and makes the groups that they ask for.
#include "parallel/sharding.h"

#include <string>
#include <utility>

#include "device/cuda.h"
#include "libtrain/error.h"

namespace lt {
namespace {

int shard_group_size(const Group& world, const ParallelOptions& options) {
  const int size = options.shard_size == 0 ? world.size() : options.shard_size;
  if (size < 1 || world.size() % size != 0) {
    throw UsageError("config", "parallel.shard_size: expected a divisor of the " + std::to_string(world.size()) +
                                   (world.size() == 1 ? " rank" : " ranks") + ", got " +
                                   std::to_string(options.shard_size));
  }
  if (size != world.size() && options.strategy.shards_nothing()) {
    throw UsageError("config",
                     "parallel.shard_size: " + std::string(options.strategy.name) + " shards nothing, got " +
                         std::to_string(options.shard_size),
                     "take zero1, zero2 or zero3, or leave shard_size out");
  }
  return size;
}

}  // namespace

void require_trainable(const Group& world, const ParallelOptions& parallel, const StepOptions& step) {
  if (step.dtype != DType::f32 && step.dtype != DType::bf16 && step.dtype != DType::f16) {
    throw UsageError("config",
                     "train.dtype: the engine trains in f32, bf16 or f16, got " + std::string(dtype_name(step.dtype)));
  }
  if (parallel.reduce_dtype != DType::f32 && parallel.reduce_dtype != DType::bf16) {
    throw UsageError(
        "config", "parallel.reduce_dtype: expected f32 or bf16, got " + std::string(dtype_name(parallel.reduce_dtype)));
  }
  if (step.tf32 && (step.dtype != DType::f32 || step.device.type == DeviceType::cpu)) {
    throw UsageError("config", "train.tf32: needs train.dtype=f32 on cuda, whose products it rounds");
  }
  if (step.fp8 && step.dtype != DType::bf16) {
    throw UsageError("config", "fp8: expected the dtype bf16 for the rest of the computation, got " +
                                   std::string(dtype_name(step.dtype)));
  }
  if (step.fp8 && step.device.type == DeviceType::cuda) {
    const int capability = cuda::compute_capability(step.device.index);  // cuBLASLt has scales of rows for 9.0 alone
    if (capability != 90) {
      throw UsageError("config", "train.dtype: fp8 needs a GPU of compute capability 9.0, " +
                                     cuda::name(step.device.index) + " has " + std::to_string(capability / 10) + "." +
                                     std::to_string(capability % 10));
    }
  }
  for (const auto& [name, value] : {std::pair{"train.micro_batch", step.micro_batch},
                                    {"train.accum", step.accum},
                                    {"parallel.recompute_every", parallel.recompute_every}}) {
    if (value >= 1) continue;
    throw UsageError("config", std::string(name) + ": expected at least 1, got " + std::to_string(value));
  }
  if (parallel.strategy.optimizer == Placement::replicated &&
      (parallel.strategy.gradients == Placement::sharded || parallel.strategy.parameters == Placement::sharded)) {
    throw UsageError("config",
                     "strategy " + std::string(parallel.strategy.name) +
                         ": expected a sharded optimizer with sharded parameters or gradients, got a replicated one");
  }
  require_device(step.device);
  if (step.cuda_graph && (step.device.type == DeviceType::cpu || !step.arena)) {
    throw UsageError("config", "train.cuda_graph: expected a CUDA device and an arena");
  }
  shard_group_size(world, parallel);
}

Sharding make_sharding(const Group& world, const ParallelOptions& parallel, const StepOptions& step) {
  const int shard = shard_group_size(world, parallel);
  const auto shard_group = [=](int rank) { return rank / shard; };
  const Group gather = world.split(shard_group, "gather");
  const PeerMemory peer_memory = step.arena ? gather.peer_memory(step.device) : PeerMemory{};
  return {parallel.strategy,
          (gather.size() == world.size() ? gather : world).duplicate("control"),
          gather,
          gather.duplicate("reduce"),
          world.split([=](int rank) { return rank % shard; }, "replicas"),
          step.dtype,
          parallel.reduce_dtype,
          step.device,
          parallel.deterministic || parallel.strategy.gradients == Placement::sharded,
          step.accum > 1,
          {Stream(step.device), Stream(step.device)},
          peer_memory};
}

}  // namespace lt
