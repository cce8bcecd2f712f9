// Times training steps on synthetic tokens.
#pragma once

#include "bench/result.h"
#include "libtrain/config/config.h"

namespace lt::bench {

// Prints and writes one JSON object with tokens/s and the min, median and max of the step time and of each activity.
// Every rank must call it.
void bench_step(const Config& config, const World& world, const Options& options);

// Prints one JSON line after the warm-up. Then, for each line "run N" on standard input, times N steps and prints
// {"ms": [...]}, until the input ends or a line is "end". So another program can be timed in turn with this one. Every
// rank must call it. Throws UsageError for any other line.
void serve_steps(const Config& config, const World& world, const Options& options);

}  // namespace lt::bench
