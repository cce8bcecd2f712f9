// Predicts the needs of a run without running it: one step on the meta device, for any number of ranks, in one process.
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

inline constexpr int kMostRanks = 1 << 20;  // that can be planned

// The machine for the estimate of a step's time.
struct PlanMachine {
  std::string device = "cpu";  // a row of docs/planning.md's table: h100, h200, a100, cpu
  int ranks_per_node = 0;      // 0: from the table
  int cores = 1;               // per rank, for the row cpu
  std::shared_ptr<const planner::MeasuredRates> rates =
      nullptr;  // of this machine, in place of the table's; null: none
  // Links in place of the table's: GB/s that a rank sends inside its node and to others, and microseconds of a hop.
  std::optional<double> link_gb_s = std::nullopt, network_gb_s = std::nullopt, hop_us = std::nullopt,
                        network_hop_us = std::nullopt;
  bool is_given = false;  // also `cpu` then decides whose memory is planned, as GPUs do
};

// The time of a step, estimated from a table of rates. Everything else in a plan is exact.
struct StepTime {
  double products_ms = 0, attention_ms = 0, traffic_ms = 0;  // on the compute stream
  double contention_ms = 0;                                  // by which collectives beside it slow this work
  double exposed_local_ms = 0, exposed_network_ms = 0;       // waits for collectives, by their slower link
  double collectives_ms = 0;                                 // duration of collectives, hidden or not
  ActivityTimes breakdown_ms{};                              // the same by activity; adds up to the total

  // The first six by name, in that order: what bounds a step is the largest.
  std::array<std::pair<const char*, double>, 6> parts() const {
    return {{{"products", products_ms},
             {"attention", attention_ms},
             {"traffic", traffic_ms},
             {"contention", contention_ms},
             {"exposed_local", exposed_local_ms},
             {"exposed_network", exposed_network_ms}}};
  }
  double compute_ms() const { return products_ms + attention_ms + traffic_ms + contention_ms; }
  double exposed_ms() const { return exposed_local_ms + exposed_network_ms; }
  double total_ms() const { return compute_ms() + exposed_ms(); }
};

struct Plan {
  std::string model;       // its shape, for display
  std::string model_json;  // its description, as in a checkpoint's manifest
  Strategy strategy = Strategy::ddp;
  Recompute recompute = Recompute::none;
  Precision dtype = Precision::f32;
  int ranks = 1, shard_size = 0;
  Size micro_batch = 1, accum = 1, seq = 1;
  Size steps = 0;       // of the run, as train.steps says
  Size peak_bytes = 0;  // maximum over ranks
  std::vector<Size> per_rank;
  MemoryUse ledger;  // at the peak of the fullest rank
  // The memory of the GPU, and what CUDA, NCCL and the rounding of blocks to pages take of it (docs/planning.md). 0 on
  // the CPU, where any amount may be there.
  Size device_bytes = 0, outside_bytes = 0;
  // Host memory of a rank for the buffers of asynchronous saves and for in-memory checkpoints. On the CPU it adds to
  // peak_bytes.
  Size host_bytes = 0;
  // The arena in which steps and evaluations take turns: its size, the most bytes live in it at one time, and the bytes
  // that the same blocks would take without it.
  Size arena_bytes = 0, arena_live_bytes = 0, without_arena_bytes = 0;
  MemoryPlan step_memory;  // a training step in that arena
  Size parameters = 0;
  double parameters_held = 0,
         parameters_optimized = 0;  // held by a rank, and with optimizer state there; with alignment
  double flops_per_token = 0;
  Size tokens_per_step = 0;
  // Traffic sent by a rank in one step. all_to_all counts rank 0; other ranks may send different amounts.
  std::vector<CommTotal> comm;
  PlanMachine machine;
  StepTime step_time;
  double tokens_per_s = 0;  // of all ranks, by step_time
  double mfu = -1;          // by step_time; below 0: the device has no meaningful peak
  // A shard size with which a rank needs no more than its device has and a step is faster. Set by find_faster_shards().
  std::optional<int> faster_shard_size;
  double faster_tokens_per_s = 0;
  // The formulas of docs/strategies.md, in bytes, with P = parameters with alignment.
  double formula_parameters = 0, formula_gradients = 0, formula_optimizer = 0;

  bool fits_device() const { return device_bytes == 0 || peak_bytes + outside_bytes <= device_bytes; }
};

// The machine that results of `ltrain bench kernels|comm|rates` were measured on, with these rates. `device` chooses a
// row of the table for what they do not say (empty: the row of the measured device), `cores` is per rank (0: as
// measured; for CPU ranks alone). Throws DataError that names file and field, and UsageError if `device` is another
// than the measured one, or for `cores` with rates of a GPU.
PlanMachine measured_machine(const std::vector<std::string>& files, const std::string& device, int cores);

// `config` for a run on the device whose memory is planned, whatever followed from another train.device. That is
// `machine.device` if it is a GPU or is given, else train.device, and for auto the CPU.
Config on_machine(Config config, const PlanMachine& machine);
// `config` need not name data. It counts as on_machine() has it. Throws UsageError.
Plan make_plan(const Config& config, int ranks, const PlanMachine& machine = {});
// The same for a model that exists; on return its parameters and buffers are not bound. `resolved` is that of as
// many ranks.
Plan make_plan(nn::Model& model, const Resolved& resolved, int ranks, const PlanMachine& machine = {});
// If collectives between nodes take a tenth of the step, plans the other shard sizes of whole nodes, for the diagnosis.
void find_faster_shards(Plan& plan, const Config& config);
std::string to_json(const Plan& plan);
std::string to_text(const Plan& plan);
std::string to_svg(const Plan& plan);  // the arena during a step: the blocks in it over time

}  // namespace lt
