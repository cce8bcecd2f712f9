// Times steps with recording and without it, in turn.
#pragma once

#include "libtrain/config.h"
#include "result.h"

namespace lt::bench {

// Rounds of one step under each of: "off" (the engine alone), "metrics" (what every run writes: parts of the step, the
// other ranks' times, metrics.jsonl), "sinks" (CSV and TensorBoard as well), "trace" (metrics, and the spans of a
// trace). Each row has `ms`; `cost_ms`, the median over rounds of its step less the round's step "off"; `cost_share`,
// that over the median of "off". The run's folder is a temporary one. The configuration's data is not read.
void bench_recorder(const Config& config, const World& world, const Options& options);

}  // namespace lt::bench
