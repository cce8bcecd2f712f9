// A training run that is open: its folder, model, engine, data and log. Whatever can be refused is refused while it
// opens, before the first step, once for all ranks.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/data/data.h"
#include "libtrain/nn/models.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/train/planner.h"
#include "libtrain/train/run_options.h"
#include "profile/kernel_profile.h"
#include "train/run_folder.h"
#include "train/run_log.h"

namespace lt {

class MemoryRestore;

// What a run does before its first step, and how long that took.
struct StartStage {
  std::string name;
  double seconds;
};

struct Run {
  // All ranks call it. Leaves the engine in the state of the newest valid checkpoint, of model.from, or of train.seed.
  // Throws UsageError and DataError.
  Run(const Config& resolved, const World& world);

  Size steps_done() const { return engine->steps_done(); }
  Device device() const { return engine->options().device; }
  // Model FLOPs utilization of a rank; below 0 where the device's peak is not known.
  double mfu(double tokens_per_s_per_rank) const;

  const Config config;
  const World& world;
  const Group control;  // times, decisions and checkpoints never travel with the gradients
  const std::unique_ptr<nn::Transformer> model;
  Plan plan;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<TokenLoader> data, validation;  // null where the configuration names none
  std::unique_ptr<KernelProfile> kernels;         // null without record.profile_steps
  std::string tokenizer_text;            // the tokenizer.json beside the training data; empty where there is none
  std::unique_ptr<Tokenizer> tokenizer;  // null where this version cannot read it
  RunStart start;
  RunLog log;
  std::vector<StartStage> start_stages;
  std::optional<double> eval_loss;  // where this run has evaluated the state as it is
  Size device_memory_bytes = 0;     // of the machine, or of the CUDA device

 private:
  // Ends the stage of the start that began where the last one ended.
  void started(const char* stage);
  void require_memory(Device device) const;
  void open_data();
  void load_state();
  void load_from(const MemoryRestore& memory);
  void require_same_data() const;

  double dense_flops_ = 0;  // of the device; 0: not known
  std::chrono::steady_clock::time_point stage_begin_ = std::chrono::steady_clock::now();
};

// Writes config.toml, env.json and arena.svg, says the lines at the start of a run and the event `start`; all ranks
// call it.
void announce(Run& run, const std::string& command);

}  // namespace lt
