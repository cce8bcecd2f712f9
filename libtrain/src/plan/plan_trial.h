// Plans configurations on one machine and compares them with its memory.
#pragma once

#include <optional>

#include "libtrain/error.h"
#include "libtrain/plan/plan_fit.h"

namespace lt::planner {

class Trial {
 public:
  // `memory_bytes`: a limit per rank, which applies if it is below the GPU's memory; 0: only the GPU's memory limits.
  Trial(int ranks, const PlanMachine& machine, Size memory_bytes)
      : ranks_(ranks), machine_(machine), memory_bytes_(memory_bytes) {}

  Plan plan(const Config& config) const { return make_plan(config, ranks_, machine_); }
  // Plans the configuration. Returns nullopt if it cannot run; refusal() holds the first such error.
  std::optional<FitTry> attempt(const Config& config);
  // Finds the largest micro-batch that fits, searching from `first`; nullopt if none fits. Assumes that the peak grows
  // with the micro-batch. Micro-batches that kernels reject do not fit. If `samples` is not 0, it is the number of
  // samples of a rank in a step; train.accum follows from it. Otherwise train.accum stays.
  std::optional<FitTry> largest(const Config& config, Size first, Size samples);
  // The error of the first configuration that could not be planned; nullopt if all could.
  const std::optional<UsageError>& refusal() const { return refusal_; }
  // The plan of the first configuration that could be planned.
  const std::optional<Plan>& first_plan() const { return first_plan_; }

 private:
  // The bytes available to a rank: the smaller of memory_bytes_ and the GPU's memory, minus the bytes of CUDA and NCCL.
  Size limit_bytes(const Plan& plan) const;
  FitTry judged(const Plan& plan) const;
  // Like largest(), for micro-batches up to `most`, with the configuration's train.accum.
  std::optional<FitTry> largest_up_to(Size most, Config config, Size first);

  int ranks_;
  PlanMachine machine_;
  Size memory_bytes_;
  std::optional<UsageError> refusal_;
  std::optional<Plan> first_plan_;
};

// True if `a` is better: it misses fewer bytes or, with equal bytes, is faster. Rates that differ by less than 1e-9 are
// equal, because the same times may be added in another order.
bool better(const FitTry& a, const FitTry& b);

}  // namespace lt::planner
