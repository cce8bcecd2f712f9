// Times training steps on synthetic tokens.
#pragma once

#include "libtrain/train/config.h"
#include "result.h"

namespace lt::bench {

// Prints and writes one JSON object: of the step time, tokens/s and each part of the step min, median and max. All
// ranks call it.
void bench_step(const Config& config, const World& world, const Options& options);

// After the warm-up prints one JSON line, then for each line "run N" of standard input times N steps and prints
// {"ms": [...]}, until the input ends. So another program can be timed in turn with this one.
void serve_steps(const Config& config, const World& world, const Options& options);

}  // namespace lt::bench
