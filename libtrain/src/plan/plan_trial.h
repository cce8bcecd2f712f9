// Plans of configurations on one machine, held against its memory.
#pragma once

#include <optional>

#include "libtrain/error.h"
#include "libtrain/plan/plan_fit.h"

namespace lt::planner {

class Trial {
 public:
  // `memory_bytes` per rank; 0: the memory of the GPU.
  Trial(int ranks, const PlanMachine& machine, Size memory_bytes)
      : ranks_(ranks), machine_(machine), memory_bytes_(memory_bytes) {}

  Plan plan(const Config& config) const { return make_plan(config, ranks_, machine_); }
  // nullopt for a configuration that cannot run; refusal() then says why.
  std::optional<FitTry> attempt(const Config& config);
  // With the largest micro-batch that fits, searched from `first`. The peak grows with the micro-batch. Micro-batches
  // that kernels refuse do not fit. `samples` of a rank in a step stay, where given, and accum follows; 0: accum stays.
  std::optional<FitTry> largest(const Config& config, Size first, Size samples);
  // The first of all refusals; none: every configuration could be planned.
  const std::optional<UsageError>& refusal() const { return refusal_; }
  // The first configuration that could be planned.
  const std::optional<Plan>& first_plan() const { return first_plan_; }

 private:
  // What a rank may hold: the lesser of what was asked and what the GPU has, less what CUDA and NCCL take.
  Size limit_bytes(const Plan& plan) const;
  FitTry judged(const Plan& plan) const;
  // The largest up to `most`.
  std::optional<FitTry> largest_up_to(Size most, Config config, Size first);

  int ranks_;
  PlanMachine machine_;
  Size memory_bytes_;
  std::optional<UsageError> refusal_;
  std::optional<Plan> first_plan_;
};

// What fits is better than what does not, then the faster. Sums of the same times in another order are equal.
bool better(const FitTry& a, const FitTry& b);

}  // namespace lt::planner
