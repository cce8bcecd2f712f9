// Plans the memory of text generation.
#pragma once

#include <string>

#include "libtrain/api.h"
#include "libtrain/plan/planner.h"

namespace LT_API lt {

// The memory of `ltrain sample` for prompts of train.seq tokens: the weights, a cache of model.max_seq tokens for each
// row, and one arena (a preallocated block) that prefill and decoding use in turn. The peak is exact for a run without
// a repetition penalty.
struct SamplePlan {
  std::string model;  // its shape, for display
  std::string dtype;
  Size rows = 1, prompt_tokens = 1, capacity = 1;  // capacity: tokens per row in the cache
  Size weight_bytes = 0, cache_bytes = 0, prefill_bytes = 0, decode_bytes = 0, arena_bytes = 0, workspace_bytes = 0;
  Size peak_bytes = 0;
};
// Plans the generation of `rows` sequences at a time. Throws UsageError, and DataError for a broken folder in
// model.from.
SamplePlan plan_sample(const Config& config, Size rows, const PlanMachine& machine = {});
std::string to_json(const SamplePlan& plan);
std::string to_text(const SamplePlan& plan);

}  // namespace lt
