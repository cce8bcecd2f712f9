// What generating text takes.
#pragma once

#include <string>

#include "libtrain/api.h"
#include "libtrain/plan/planner.h"

namespace LT_API lt {

// The memory of `ltrain sample`: the weights, the cache of max_seq tokens for each row, and one arena in which reading
// a prompt of train.seq tokens and decoding take turns. The peak equals that of the run, without a repetition penalty.
struct SamplePlan {
  std::string model;  // its shape, for display
  std::string dtype;
  Size rows = 1, prompt_tokens = 1, capacity = 1;  // capacity: tokens of a row in the cache
  Size weight_bytes = 0, cache_bytes = 0, prefill_bytes = 0, decode_bytes = 0, arena_bytes = 0, workspace_bytes = 0;
  Size peak_bytes = 0;
};
// Throws UsageError.
SamplePlan plan_sample(const Config& config, Size rows, const PlanMachine& machine = {});
std::string to_json(const SamplePlan& plan);
std::string to_text(const SamplePlan& plan);

}  // namespace lt
