// An open training run: its folder, model, engine, data and log. All checks run while the run opens, before the first
// step. If one fails, it fails on all ranks.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/comm/world.h"
#include "libtrain/config/resolved.h"
#include "libtrain/nn/module.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/plan/planner.h"
#include "profile/kernel_profile.h"
#include "record/run_log.h"
#include "run/algorithms.h"
#include "run/find_start.h"
#include "run/run_data.h"
#include "run/run_folder.h"

namespace lt::run {

// One stage of opening a run, and its duration.
struct StartStage {
  std::string name;
  double seconds;
};

struct Run {
  // Opens the run and loads the state `from` into the engine. `given` replaces the configuration's training files;
  // null: uses those files. World, model and `given` must outlive the run. All ranks must call it. Throws UsageError
  // and DataError.
  Run(Resolved resolved_, const World& world, nn::Model& model, BatchSource* given);

  Size steps_done() const { return engine->steps_done(); }
  bool begins_from_other_run() const { return std::holds_alternative<FromOtherRun>(from.start); }
  Device device() const { return engine->options().device; }
  // True if the run keeps copies of its state in the hosts' memory.
  bool copies_to_memory() const { return resolved.checkpoint.memory_every > 0 && !lost_timeline; }
  // Model FLOPs utilization of a rank; negative if the device's peak is unknown.
  double mfu(double tokens_per_s_per_rank) const;

  Resolved resolved;
  const World& world;
  const Group control;  // for times, decisions and checkpoints, separate from the gradients' groups
  nn::Model& model;
  Plan plan;
  Algorithms algorithms;
  std::unique_ptr<Engine> engine;
  RunData data;
  std::unique_ptr<profile::KernelProfile> kernels;  // null without record.profile_steps
  RunFolder folder;
  FoundStart from;
  bool lost_timeline = false;  // true: run.json could not be updated, so this start makes no copies in memory
  recorder::RunLog log;
  std::vector<StartStage> start_stages;
  std::optional<double> eval_loss;  // set if this run has evaluated the current state
  Size device_memory_bytes = 0;     // total memory of the machine, or of the CUDA device

 private:
  // Records the stage that began when the previous one ended.
  void stage_done(const char* stage);

  double dense_flops_ = 0;  // the device's dense peak in FLOP/s; 0: unknown
  std::chrono::steady_clock::time_point stage_begin_ = std::chrono::steady_clock::now();
};

// Writes config.toml, env.json and arena.svg, logs the lines at the start of a run and writes the event `start`. All
// ranks must call it.
void announce(Run& run);

}  // namespace lt::run
