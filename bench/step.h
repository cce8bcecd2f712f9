// Times training steps on synthetic tokens.
#pragma once

#include <string>

#include "libtrain/config.h"
#include "libtrain/world.h"

namespace lt::bench {

struct StepBenchOptions {
  Size warmup = 10, iterations = 50;
  std::string out;     // JSON file; empty: standard output alone
  bool serve = false;  // time steps on request: see serve_steps()
};

// Prints and writes one JSON object: command, commit, hardware, libraries, warm-up, counted iterations, and of the step
// time, tokens/s and each part of the step min, median and max. All ranks call it.
void bench_step(const Config& config, const World& world, const StepBenchOptions& options, const std::string& command);

// After the warm-up prints one JSON line, then for each line "run N" of standard input times N steps and prints
// {"ms": [...]}, until the input ends. So another program can be timed in turn with this one.
void serve_steps(const Config& config, const World& world, const StepBenchOptions& options);

}  // namespace lt::bench
