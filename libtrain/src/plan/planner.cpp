// The planner. It runs the real engine and model on the meta device.
#include "libtrain/plan/planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/model_table.h"
#include "config/names.h"
#include "config/origin.h"
#include "device/cuda.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "libtrain/generate/generate.h"
#include "libtrain/parallel/engine.h"
#include "memory/allocator.h"
#include "memory/workspace.h"
#include "plan/plan_limits.h"
#include "plan/run_batches.h"
#include "plan/run_rates.h"
#include "plan/schedule.h"
#include "plan/shard_sizes.h"
#include "plan/step_clock.h"
#include "save/copy_slots.h"
#include "save/engine_checkpoint.h"
#include "save/state_copy.h"

namespace lt::planner {
namespace {

// Computes bytes by the formulas of docs/explanation/memory.md.
void evaluate_formulas(Plan& plan, const Resolved& resolved, const std::vector<OptimizerGroupUse>& groups,
                       double padded, double trained, int shard_ranks) {
  const Strategy& strategy = resolved.parallel.strategy;
  const double n = shard_ranks;
  const bool mixed = resolved.precision != Precision::f32;
  const auto held = [&](double elements, double bytes, Placement placement) {
    return placement == Placement::sharded ? bytes * elements / n : bytes * elements;
  };
  plan.formula_parameters = held(padded, mixed ? 2 : 4, strategy.parameters);
  plan.formula_gradients = held(trained, 4, strategy.gradients);
  double kept = 0, elements = 0;
  for (const OptimizerGroupUse& use : groups) {
    const Optimizer& optimizer = use.group->optimizer;
    Size bytes = mixed && optimizer.masters ? dtype_bytes(DType::f32) : 0;
    for (const StateKind& state : optimizer.states) bytes += dtype_bytes(state.dtype);
    kept += static_cast<double>(bytes * use.elements), elements += static_cast<double>(use.elements);
  }
  plan.formula_optimizer = held(trained, kept / elements, strategy.optimizer);
  plan.parameters_held = held(padded, 1, strategy.parameters);
  plan.parameters_optimized = held(trained, 1, strategy.optimizer);
}

// The buffers that NCCL makes on a rank where it gathers, or sends messages, between the ranks of a host: what does not
// lie in windows of all ranks, and matrices to their owners.
double nccl_buffers_mib(const Plan& plan, const Resolved& resolved, const std::vector<OptimizerGroupUse>& groups) {
  const Strategy& strategy = resolved.parallel.strategy;
  const int on_host = std::min(plan.ranks, plan.machine.ranks_per_node);
  const bool has_matrices = std::any_of(groups.begin(), groups.end(), [](const OptimizerGroupUse& use) {
    return use.group->optimizer.matrices.has_value();
  });
  const bool is_hybrid = plan.shard_size != 0 && plan.shard_size != plan.ranks;
  const bool samples = strategy.parameters == Placement::sharded && resolved.sample_every > 0;
  const bool sends = (has_matrices && strategy.optimizer == Placement::sharded) || plan.ranks % on_host != 0 ||
                     (is_hybrid && plan.shard_size < on_host);
  if (on_host == 1) return 0;
  return (sends || is_hybrid || samples ? kNcclGathersMib : 0) + (sends ? kNcclPeerMib * (on_host - 1) : 0);
}

// `rounding_bytes`: what rounding the plan's blocks to the device's pages takes.
void evaluate_device_memory(Plan& plan, const Resolved& resolved, const std::vector<OptimizerGroupUse>& groups,
                            Size rounding_bytes) {
  const DeviceModel& device = find_device_model(plan.machine.device);
  if (device.memory_mib == 0) return;
  const auto bytes = [](double mib) { return static_cast<Size>(mib) << 20; };
  const bool has_nccl = plan.ranks > 1 && resolved.backend != CommBackend::mpi;
  const double nccl_mib = has_nccl ? kNcclMib + nccl_buffers_mib(plan, resolved, groups) : 0;
  plan.device_bytes = bytes(device.memory_mib);
  plan.outside_bytes = bytes(kCudaMib + nccl_mib) + rounding_bytes;
}

DeviceModel model_of(const PlanMachine& machine) {
  DeviceModel device = find_device_model(machine.device);
  device.local_gb_s = machine.link_gb_s.value_or(device.local_gb_s);
  device.network_gb_s = machine.network_gb_s.value_or(device.network_gb_s);
  device.local_hop_us = machine.hop_us.value_or(device.local_hop_us);
  device.network_hop_us = machine.network_hop_us.value_or(device.network_hop_us);
  return device;
}

// Times the second step. The first one is not typical: some collectives start in one step and end in the next.
void estimate_time(Plan& plan, const PlanMachine& machine, Engine& engine, const nn::ModelFacts& facts,
                   const Batch& batch, StepSchedule* schedule) {
  const DeviceModel device = model_of(machine);
  plan.machine = machine;
  plan.machine.ranks_per_node = ranks_per_node(machine);
  if (machine.cores < 1 || (machine.cores != 1 && machine.device != "cpu")) {
    throw UsageError("plan", fmt::format("cores (--cores): expected {}, got {}",
                                         machine.device == "cpu" ? "at least 1" : "1 for a rank on " + machine.device,
                                         machine.cores));
  }
  DeviceUse use{
      device, {plan.ranks, plan.machine.ranks_per_node}, machine.cores, engine.options().dtype, facts.head_dim};
  // Those of a transformer are large, so their overhead is left out.
  const bool is_transformer = dynamic_cast<const nn::Transformer*>(&engine.model()) != nullptr;
  if (machine.device == "cpu" && !is_transformer) use.operation_us = kCpuOperationUs;
  if (device.overlaps) use.loss_to_transfer = kLossToTransfer, use.loss_to_waiting = kLossToWaiting;
  if (machine.rates != nullptr) {
    const DType dtype = dtype_of_rates(use.dtype, device.overlaps);
    use.rates = std::make_shared<RunRates>(
        *machine.rates, RatesUse{dtype, engine.batch_shape().seq, facts.head_dim, facts.gated_ffn, machine.cores});
    if (use.rates->is_empty()) {
      throw UsageError("plan",
                       fmt::format("rates (--rates): expected rates in {}, found none in {}", dtype_name(dtype),
                                   fmt::join(machine.rates->files, ", ")),
                       "ltrain bench rates measures those of the configured train.dtype");
    }
  }
  const auto clock = std::make_shared<StepClock>(use);
  const TimelineScope timeline(clock);
  const profile::WorkScope counted(&clock->work());
  engine.step(batch);
  clock->take();
  clock->record_to(schedule);
  engine.step(batch);
  plan.step_time = clock->take();
  if (schedule == nullptr) return;
  engine.step(batch);
  clock->take();
  clock->record_to(nullptr);
}

void add_rates(Plan& plan) {
  const double seconds = plan.step_time.total_ms() / 1e3;
  plan.tokens_per_s = static_cast<double>(plan.tokens_per_step) / seconds;
  const double dense_flops = dense_flops_of(plan.dtype, find_device_model(plan.machine.device).dense_tflops_bf16);
  if (dense_flops > 0 && plan.flops_per_token > 0)
    plan.mfu = plan.tokens_per_s / plan.ranks * plan.flops_per_token / dense_flops;
}

// The number of copies of a rank's state in host memory: buffers of asynchronous saves, in-memory checkpoints, and the
// peer's in-memory checkpoints if the run has several hosts.
Size copies_on_host(const Resolved& resolved, const Plan& plan) {
  Size copies = resolved.checkpoint.async.value_or(false) ? saver::kSaveBuffers : 0;
  if (resolved.checkpoint.memory_every > 0)
    copies += saver::kMemorySlots * (plan.ranks > plan.machine.ranks_per_node ? 2 : 1);
  return copies;
}

// While a sample is generated, beside the arena, the arena is empty. A ledger of that moment would hide what the arena
// is for, so it shows the blocks that steps and evaluations hold there at most.
void show_steps_in_arena(MemoryUse& ledger, const MemoryUse& in_arena) {
  for (std::size_t i = 0; i < kMemoryOwners; ++i) ledger.by_owner[i] += in_arena.by_owner[i];
  ledger.by_owner[static_cast<std::size_t>(MemoryOwner::slack)] -= in_arena.total;
}

void require_ranks(int ranks) {
  if (ranks >= 1 && ranks <= kMostRanks) return;
  throw UsageError("plan", fmt::format("ranks: expected 1 to {}, got {}", kMostRanks, ranks));
}

// Every rank uses the same memory, so planning one rank is enough.
Plan plan_with(nn::Model& model, const Resolved& resolved, int ranks, const PlanMachine& machine,
               StepSchedule* schedule) {
  require_plannable(model, {resolved.step.micro_batch, resolved.step.seq, "train.micro_batch", "train.seq"});
  EngineOptions options = resolved.step;
  if (options.fp8 && find_device_model(machine.device).matmul_tflops_fp8 == 0) {
    throw UsageError(
        "plan", fmt::format("train.dtype=fp8: expected a device (--gpu) with matmuls in FP8, got {}", machine.device));
  }
  const Device device = meta_for(options.device);
  options.device = device;
  const MemoryUse before = memory_live(device);
  const Size rounding_bytes_before = memory::meta_rounding_bytes();
  const bool hosts_matter = resolved.backend != CommBackend::mpi;  // which stages all in host memory
  Engine engine(model, Group::meta(0, ranks, target_of(device), hosts_matter ? ranks_per_node(machine) : 0),
                resolved.parallel, resolved.optimizers, options);
  const BatchShape shape = engine.batch_shape();
  const nn::ModelFacts facts = config::facts_of(model, resolved);
  Plan plan;
  plan.ranks = ranks, plan.shard_size = resolved.parallel.shard_size, plan.dtype = resolved.precision;
  plan.micro_batch = resolved.step.micro_batch, plan.accum = resolved.step.accum, plan.seq = resolved.step.seq;
  plan.steps = resolved.data.epochs > 0 ? 0 : resolved.steps();  // epochs depend on the data
  const RunBatches batches = batches_on_meta(model, shape, resolved);
  engine.rehearse(batches.step, batches.evaluation);
  reset_memory_peak(device);
  take_comm_totals();
  engine.step(batches.step);
  plan.comm = take_comm_totals();
  estimate_time(plan, machine, engine, facts, batches.step, schedule);
  if (batches.evaluation) engine.evaluate(*batches.evaluation);
  const Size stepping_bytes = memory_peak(device).total - before.total;
  Size other_ranks_bytes = stepping_bytes;
  if (resolved.sample_every > 0) {
    auto* const transformer = dynamic_cast<nn::Transformer*>(&model);
    if (transformer == nullptr) {
      throw UsageError("config", "train.sample_every", "0 with a model that is no transformer",
                       std::to_string(resolved.sample_every));
    }
    engine.with_parameters([] {});  // on all ranks, of which rank 0 generates
    other_ranks_bytes = memory_peak(device).total - before.total;
    engine.with_parameters([&] { sample(*transformer, {0}, resolved.step.seed); });
  }
  take_comm_totals();

  plan.model = facts.details;
  plan.model_json = config::model_description(model, resolved);
  plan.strategy = resolved.parallel.strategy, plan.recompute = resolved.parallel.recompute;
  plan.ledger = memory_peak(device);
  for (std::size_t i = 0; i < kMemoryOwners; ++i) plan.ledger.by_owner[i] -= before.by_owner[i];
  plan.ledger.total -= before.total;
  const Size fixed_bytes = memory::workspace_bytes(target_of(device));
  plan.ledger.by_owner[static_cast<std::size_t>(MemoryOwner::workspace)] += fixed_bytes;
  plan.ledger.total += fixed_bytes;
  plan.peak_bytes = plan.ledger.total;
  plan.per_rank.assign(static_cast<std::size_t>(ranks), other_ranks_bytes + fixed_bytes);
  plan.per_rank[0] = plan.peak_bytes;
  const Size state_copy_bytes = saver::state_copy_bytes(saver::saved_state(engine).owned);
  plan.host_bytes = copies_on_host(resolved, plan) * state_copy_bytes;
  plan.host_bytes_if_free = resolved.checkpoint.async ? 0 : saver::kSaveBuffers * state_copy_bytes;
  plan.arena_bytes = engine.arena_bytes();
  MemoryUse in_arena;
  for (const MemoryPlan* memory : engine.memory_plans()) {
    if (memory->name == "step") plan.step_memory = *memory;
    const MemoryUse fullest = fullest_moment(memory->lifetimes);
    if (fullest.total > in_arena.total) in_arena = fullest;
    plan.without_arena_bytes = std::max(plan.without_arena_bytes, bytes_without_arena(memory->lifetimes));
  }
  plan.arena_live_bytes = in_arena.total;
  if (plan.peak_bytes > stepping_bytes + fixed_bytes) show_steps_in_arena(plan.ledger, in_arena);
  plan.parameters = model.parameter_count();
  plan.flops_per_token = facts.flops_per_token;
  plan.tokens_per_step = shape.global_tokens();
  add_rates(plan);
  evaluate_device_memory(plan, resolved, engine.optimizer_groups(),
                         memory::meta_rounding_bytes() - rounding_bytes_before);
  const int shard_ranks = engine.parallel().shard_size == 0 ? ranks : engine.parallel().shard_size;
  evaluate_formulas(plan, resolved, engine.optimizer_groups(), static_cast<double>(engine.padded_parameters()),
                    static_cast<double>(engine.padded_trained()), shard_ranks);
  return plan;
}

Plan plan_of(const Config& given, int ranks, const PlanMachine& machine, StepSchedule* schedule) {
  require_ranks(ranks);
  const Resolved resolved = resolve(on_machine(given, machine), ranks, DeviceType::cpu);
  Plan plan;
  config::name_keys(resolved.config,
                    [&] { plan = plan_with(*make_model(resolved), resolved, ranks, machine, schedule); });
  return plan;
}

}  // namespace

Plan make_plan_with_schedule(const Config& given, int ranks, const PlanMachine& machine, StepSchedule& schedule) {
  return plan_of(given, ranks, machine, &schedule);
}

}  // namespace lt::planner

namespace lt {

Config on_machine(Config config, const PlanMachine& machine) {
  if (machine.device == "cpu" && !machine.is_given) return config;
  const DeviceType device = machine.device == "cpu" ? DeviceType::cpu : DeviceType::cuda;
  // The config.toml of a run says what followed from its device.
  if (config.train.device && config.train.device != device) config.train.cuda_graph.reset();
  config.train.device = device;
  return config;
}

Plan make_plan(const Config& given, int ranks, const PlanMachine& machine) {
  return planner::plan_of(given, ranks, machine, nullptr);
}

Plan make_plan(nn::Model& model, const Resolved& resolved, int ranks, const PlanMachine& machine) {
  planner::require_ranks(ranks);
  Plan plan = planner::plan_with(model, resolved, ranks, machine, nullptr);
  for (const nn::NamedParameter& entry : model.all_parameters()) entry.parameter->bind({});
  for (nn::Buffer* const buffer : model.buffers()) buffer->bind({});
  return plan;
}

}  // namespace lt
