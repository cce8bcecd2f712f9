// Times steps with and without recording, in turn.
#pragma once

#include "bench/result.h"
#include "libtrain/config/config.h"

namespace lt::bench {

// Runs rounds of one step in each mode: "off" (the engine alone), "metrics" (what every run records: activities of the
// step, the other ranks' times, metrics.jsonl), "sinks" (CSV and TensorBoard as well), "trace" (metrics and the spans
// of a trace). Fields of a row:
//
//   ms             the step's time, on rank 0
//   cost_ms        median over rounds of the step's excess over the round's "off" step; cost_share: cost_ms over the
//                  median of "off"
//   rows_written   lines of metrics.jsonl and metrics.csv, over all counted steps; bytes_written: of all files
//   spans          spans of the trace on rank 0, over all counted steps
//
// The result's `files` lists the sizes of the files in the run's folder at the end. The folder and the tokens are
// temporary: the configuration's settings for data, checkpoints, evaluation, samples, recording and the run's folder
// are ignored.
void bench_recorder(const Config& config, const World& world, const Options& options);

}  // namespace lt::bench
