// Predicts the memory, traffic and time of a run without running it: one process rehearses the step of one rank (a dry
// run on shapes only, on the meta device) for any number of ranks.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/comm/group.h"
#include "libtrain/config/config.h"
#include "libtrain/memory/memory.h"
#include "libtrain/memory/memory_plan.h"
#include "libtrain/nn/module.h"
#include "libtrain/profile/activity.h"
#include "libtrain/tensor/batch.h"

namespace lt::planner {
struct MeasuredRates;
}

namespace LT_API lt {

struct Resolved;

inline constexpr int kMostRanks = 1 << 20;  // limit of `ranks` in a plan

// The machine that a plan is for.
struct PlanMachine {
  std::string device = "cpu";  // a row of the table in docs/explanation/planning.md: h100, h200, a100, cpu
  int ranks_per_node = 0;      // 0: from the table; for cpu all ranks
  int cores = 1;               // per rank; must be 1 unless device is cpu
  std::shared_ptr<const planner::MeasuredRates> rates =
      nullptr;  // measured on this machine; they replace the table's; may be null
  // These replace the links of the table: GB/s that a rank sends inside its node and to other nodes, and microseconds
  // of a hop (from one rank of a ring to the next) inside a node and between nodes. nullopt: from the table.
  std::optional<double> link_gb_s = std::nullopt, network_gb_s = std::nullopt, hop_us = std::nullopt,
                        network_hop_us = std::nullopt;
  bool is_given = false;  // true: `device` replaces train.device even if it is cpu; a GPU always does
};

// The time of a step, estimated from rates. Memory and traffic in a plan are exact.
struct StepTime {
  double matmuls_ms = 0, attention_ms = 0, traffic_ms = 0;  // compute stream: matmuls, attention, memory traffic
  double overhead_ms = 0;  // what operations take besides their work; only on CPUs, for models that are no transformers
  double contention_ms = 0;                             // extra time of this work due to concurrent collectives
  double exposed_local_ms = 0, exposed_network_ms = 0;  // waits for collectives, bound by node links or network
  double collectives_ms = 0;                            // duration of all collectives, hidden or not
  ActivityTimes breakdown_ms{};                         // the total time by activity

  // The first seven members by name, in that order; their sum is the total. The largest one bounds the step.
  std::array<std::pair<const char*, double>, 7> parts() const {
    return {{{"matmuls", matmuls_ms},
             {"attention", attention_ms},
             {"traffic", traffic_ms},
             {"overhead", overhead_ms},
             {"contention", contention_ms},
             {"exposed_local", exposed_local_ms},
             {"exposed_network", exposed_network_ms}}};
  }
  double compute_ms() const { return matmuls_ms + attention_ms + traffic_ms + overhead_ms + contention_ms; }
  double exposed_ms() const { return exposed_local_ms + exposed_network_ms; }
  double total_ms() const { return compute_ms() + exposed_ms(); }
};

struct Plan {
  std::string model;       // its shape, for display
  std::string model_json;  // its description in JSON, as in a checkpoint's manifest
  Strategy strategy = Strategy::ddp;
  Recompute recompute = Recompute::none;
  Precision dtype = Precision::f32;
  int ranks = 1, shard_size = 0;
  Size micro_batch = 1, accum = 1, seq = 1;
  Size steps = 0;              // of the run, as in train.steps; 0 if data.epochs replaces it
  Size peak_bytes = 0;         // maximum over ranks
  std::vector<Size> per_rank;  // peak bytes of each rank
  MemoryUse ledger;            // bytes by owner, at the peak of the fullest rank
  // The memory of the GPU, and the bytes of it that CUDA, NCCL and the rounding of blocks to pages take
  // (docs/explanation/planning.md). Both are 0 on the CPU, whose memory is unknown.
  Size device_bytes = 0, outside_bytes = 0;
  // Host memory of a rank for the buffers of asynchronous saves and for in-memory checkpoints. peak_bytes does not
  // include it: on the CPU, a rank needs the sum of both.
  Size host_bytes = 0;
  // With checkpoint.async=auto and the default of 30 minutes: host memory of a rank for the buffers of saves while
  // training continues. A run does without them if its host has less than twice as much free. Otherwise 0.
  Size host_bytes_if_free = 0;
  // The arena (one preallocated block) that steps and evaluations use in turn: its size, the most bytes in use at one
  // time, and the bytes that a caching allocator would take for the same tensors.
  Size arena_bytes = 0, arena_live_bytes = 0, without_arena_bytes = 0;
  MemoryPlan step_memory;  // of a training step in the arena
  Size parameters = 0;
  double parameters_held = 0,
         parameters_optimized = 0;  // elements on a rank, padding included: held; with optimizer state
  double flops_per_token = 0;       // of training; 0: unknown
  Size tokens_per_step = 0;
  // Traffic that a rank sends in one step. For all_to_all it is rank 0's; other ranks may send other amounts.
  std::vector<CommTotal> comm;
  PlanMachine machine;
  StepTime step_time;
  double tokens_per_s = 0;  // of all ranks, by step_time
  double mfu = -1;          // share of the dense peak, by step_time; -1: unknown, as in f32 or on a CPU
  // A shard size that makes a step faster, and its tokens/s (meaningless without it). find_faster_shards() sets them.
  std::optional<int> faster_shard_size;
  double faster_tokens_per_s = 0;
  // Bytes of a rank by the formulas of docs/explanation/memory.md, where P includes padding.
  double formula_parameters = 0, formula_gradients = 0, formula_optimizer = 0;

  bool fits_device() const { return device_bytes == 0 || peak_bytes + outside_bytes <= device_bytes; }
};

// Returns the machine that results of `ltrain bench kernels|comm|rates` were measured on, with their rates. The table
// gives all other values, from the row of the measured device. If it has no such row, `device` must name the row to
// use; else `device` must be that row or empty. `cores` is per rank (0: as measured), for CPU ranks only. Throws
// DataError that names file and field, and UsageError for a wrong or missing `device`, and for `cores` with rates of a
// GPU.
PlanMachine measured_machine(const std::vector<std::string>& files, const std::string& device, int cores);

// Returns `config` for the device whose memory is planned: machine.device if it is a GPU or machine.is_given, else
// train.device, or the CPU if that is auto. Undoes a train.cuda_graph that was set for another train.device.
Config on_machine(Config config, const PlanMachine& machine);
// Plans on_machine(config, machine) for 1 to kMostRanks ranks. `config` need not name data. Throws UsageError.
Plan make_plan(const Config& config, int ranks, const PlanMachine& machine = {});
// Like make_plan() above, but for an existing model. `resolved` must be resolved for the same number of ranks. Leaves
// the parameters and buffers of the model unbound.
Plan make_plan(nn::Model& model, const Resolved& resolved, int ranks, const PlanMachine& machine = {});
// Sets plan.faster_shard_size if waits for collectives between nodes take a tenth of the step or more, and if another
// shard size (the ranks of 1, 2, 4, ... nodes, or all ranks) gives over 5 % more tokens/s. If the plan fits the device,
// that size must fit too. `config` must be the one of the plan.
void find_faster_shards(Plan& plan, const Config& config);
std::string to_json(const Plan& plan);
std::string to_text(const Plan& plan);
std::string to_svg(const Plan& plan);  // drawing of the arena during a step: its blocks over time

}  // namespace lt
