// Times steps with recording and without it, in turn.
#pragma once

#include "libtrain/train/config.h"
#include "result.h"

namespace lt::bench {

// Rounds of one step under each of: "off" (the engine alone), "metrics" (what every run writes: parts of the step, the
// other ranks' times, metrics.jsonl), "sinks" (CSV and TensorBoard as well), "trace" (metrics, and the spans of a
// trace). Of each row:
//
//   ms             the step's time, on rank 0
//   cost_ms        the median over rounds of the step less the round's step "off"; cost_share: over the median of "off"
//   rows_written   lines of metrics.jsonl and metrics.csv, by all counted steps; bytes_written: of all files
//   spans          of the trace on rank 0, by all counted steps
//
// `files` of the result has the sizes of what was in the run's folder at the end. The folder is a temporary one, and so
// are the tokens: what the configuration says of data, checkpoints, evaluation, samples, recording and the run's folder
// does not count.
void bench_recorder(const Config& config, const World& world, const Options& options);

}  // namespace lt::bench
