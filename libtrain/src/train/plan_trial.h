// Plans of configurations on one machine, held against its memory.
#pragma once

#include <optional>

#include "libtrain/train/planner.h"

namespace lt {

class Trial {
 public:
  // `memory_bytes` per rank; 0: the memory of the GPU.
  Trial(int ranks, const PlanMachine& machine, Size memory_bytes)
      : ranks_(ranks), machine_(machine), memory_bytes_(memory_bytes) {}

  Plan plan(const Config& config) const { return make_plan(config, ranks_, machine_); }
  FitTry judged(const Plan& plan) const;
  // With the largest micro-batch that fits, searched from `first`. The peak grows with the micro-batch. Micro-batches
  // that kernels refuse do not fit.
  std::optional<FitTry> largest(Config config, Size first) const;

 private:
  // What a rank may hold: the lesser of what was asked and what the GPU has, less what CUDA and NCCL take.
  Size limit_bytes(const Plan& plan) const;
  std::optional<FitTry> attempt(const Config& config) const;

  int ranks_;
  PlanMachine machine_;
  Size memory_bytes_;
};

// What fits is better than what does not, then the faster. Sums of the same times in another order are equal.
bool better(const FitTry& a, const FitTry& b);

}  // namespace lt
