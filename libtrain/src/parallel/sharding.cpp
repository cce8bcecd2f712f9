// Checks an engine's options and splits the world into their groups.
#include "parallel/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "device/cuda.h"
#include "libtrain/error.h"
#include "parallel/for_tests.h"

namespace lt::parallel {
namespace {

int shard_group_size(const Group& world, const ParallelOptions& options) {
  const int size = options.shard_size == 0 ? world.size() : options.shard_size;
  if (size < 1 || world.size() % size != 0) {
    throw UsageError("engine", "shard_size",
                     "a divisor of the " + std::to_string(world.size()) + (world.size() == 1 ? " rank" : " ranks"),
                     std::to_string(options.shard_size));
  }
  if (size != world.size() && options.strategy.shards_nothing()) {
    throw UsageError("engine", "shard_size", "0 with " + std::string(options.strategy.name) + ", which shards nothing",
                     std::to_string(options.shard_size), "take zero1, zero2 or zero3, or leave shard_size out");
  }
  return size;
}

void require_dtypes(const ParallelOptions& parallel, const EngineOptions& step) {
  const auto refuse = [](const char* field, std::string expected, DType actual) {
    throw UsageError("engine", field, std::move(expected), std::string(dtype_name(actual)));
  };
  if (step.dtype != DType::f32 && step.dtype != DType::bf16 && step.dtype != DType::f16) {
    refuse("dtype", "f32, bf16 or f16", step.dtype);
  }
  if (parallel.reduce_dtype != DType::f32 && parallel.reduce_dtype != DType::bf16) {
    refuse("reduce_dtype", "f32 or bf16", parallel.reduce_dtype);
  }
  if (step.tf32 && (step.dtype != DType::f32 || step.device.type == DeviceType::cpu)) {
    throw UsageError("engine", "tf32", "false without f32 on cuda, whose matmuls it rounds", "true");
  }
  if (step.fp8 && step.dtype != DType::bf16)
    refuse("dtype", "bf16 with fp8, for the rest of the computation", step.dtype);
}

// cuBLASLt has scales of rows for 9.0 alone.
void require_fp8_matmuls(Device device) {
  const int capability = device::cuda::compute_capability(device.index);
  if (capability == 90) return;
  throw UsageError("engine", "fp8", "a GPU of compute capability 9.0",
                   device::cuda::name(device.index) + " with " + std::to_string(capability / 10) + "." +
                       std::to_string(capability % 10));
}

}  // namespace

void require_trainable(const Group& world, const ParallelOptions& parallel, const EngineOptions& step) {
  require_dtypes(parallel, step);
  if (step.fp8 && step.device.type == DeviceType::cuda) require_fp8_matmuls(step.device);
  for (const auto& [field, value] : {std::pair{"micro_batch", step.micro_batch},
                                     {"accum", step.accum},
                                     {"recompute_every", parallel.recompute_every}}) {
    if (value < 1) throw UsageError("engine", field, "at least 1", std::to_string(value));
  }
  const Strategy& strategy = parallel.strategy;
  if (strategy.optimizer == Placement::replicated &&
      (strategy.gradients == Placement::sharded || strategy.parameters == Placement::sharded)) {
    throw UsageError("engine", "strategy", "a sharded optimizer with sharded parameters or gradients",
                     "a replicated one in " + std::string(strategy.name));
  }
  require_device(step.device);
  if (step.cuda_graph && step.device.type == DeviceType::cpu) {
    throw UsageError("engine", "cuda_graph", "false without a CUDA device", "true");
  }
  shard_group_size(world, parallel);
  const auto ranks = static_cast<unsigned>(world.size());
  if (parallel.deterministic == Determinism::elastic && (!std::has_single_bit(ranks) || ranks > kMostElasticRanks)) {
    throw UsageError(
        "engine", "ranks", fmt::format("a power of two up to {} in an elastic run", kMostElasticRanks),
        std::to_string(ranks),
        fmt::format("the nearest below is {}", std::min<unsigned>(std::bit_floor(ranks), kMostElasticRanks)));
  }
}

Sharding make_sharding(const Group& world, const ParallelOptions& parallel, const EngineOptions& step) {
  const int shard = shard_group_size(world, parallel);
  const auto shard_group = [=](int rank) { return rank / shard; };
  const Group gather = world.split(shard_group, "gather");
  const bool is_elastic = parallel.deterministic == Determinism::elastic;
  const PeerMemory peer_memory = SeparateAllocationScope::is_open() ? PeerMemory{} : gather.peer_memory(step.device);
  return {parallel.strategy,
          (gather.size() == world.size() ? gather : world).duplicate("control"),
          gather,
          gather.duplicate("reduce"),
          world.split([=](int rank) { return rank % shard; }, "replicas"),
          step.dtype,
          gather.size() > 1 || is_elastic ? parallel.reduce_dtype : DType::f32,  // one rank sends nothing
          is_elastic ? DType::f32 : parallel.reduce_dtype,
          step.device,
          parallel.deterministic != Determinism::off || parallel.strategy.gradients == Placement::sharded,
          is_elastic,
          step.accum,
          {Stream(step.device), Stream(step.device)},
          peer_memory};
}

}  // namespace lt::parallel
