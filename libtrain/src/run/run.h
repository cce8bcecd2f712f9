// An open training run: its folder, model, engine, data and log. Every check that can fail runs while the run opens,
// before the first step, and fails on all ranks together.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/comm/world.h"
#include "libtrain/config/resolved.h"
#include "libtrain/data/data.h"
#include "libtrain/nn/module.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/plan/planner.h"
#include "profile/kernel_profile.h"
#include "record/run_log.h"
#include "run/evaluation.h"
#include "run/run_folder.h"

namespace lt::saver {
class MemoryRestore;
}

namespace lt::run {

// One stage of opening a run, and its duration.
struct StartStage {
  std::string name;
  double seconds;
};

struct Run {
  // All ranks must call it. Leaves the engine in the state of the newest valid checkpoint, of model.from, or of
  // train.seed. `given` replaces the files of the configuration; null: those files. It and the model must outlive the
  // run. Throws UsageError and DataError.
  Run(Resolved resolved_, const World& world, nn::Model& model, BatchSource* given);

  Size steps_done() const { return engine->steps_done(); }
  // Whether its state is its own or initial, and not that of another run from which it begins.
  bool continues_itself() const { return !std::holds_alternative<FromOtherRun>(start); }
  Device device() const { return engine->options().device; }
  // Whether it keeps copies of its state in the hosts' memory.
  bool copies_to_memory() const { return resolved.checkpoint.memory_every > 0 && !lost_timeline; }
  // Model FLOPs utilization of a rank; negative if the device's peak is unknown.
  double mfu(double tokens_per_s_per_rank) const;

  Resolved resolved;
  const World& world;
  const Group control;  // for times, decisions and checkpoints, apart from the gradients' collectives
  nn::Model& model;
  Plan plan;
  std::unique_ptr<Engine> engine;
  BatchSource* batches;                                // null if nothing is given and no files are named
  const TokenLoader* data = nullptr;                   // `batches`, if they come from token files
  std::vector<checkpoint::DataFile> data_files;        // of `data`
  std::vector<ValidationSet> validation;               // one for each entry of data.val; empty without evaluations
  std::unique_ptr<profile::KernelProfile> kernels;     // null without record.profile_steps
  std::string tokenizer_text;                          // the tokenizer.json beside the training data; empty if missing
  std::map<std::string, std::string> tokenizer_files;  // beside it, as in checkpoint::RunState
  std::unique_ptr<Tokenizer> tokenizer;                // null if missing or unreadable for this version
  std::string base, base_digest;                       // as in checkpoint::RunState
  std::string weights;                                 // whence the initial or base weights came; empty: drawn, or none
  RunFolder folder;
  Start start;
  std::vector<std::string> passed_over;  // why newer checkpoints were skipped
  bool lost_timeline = false;            // the folder kept an earlier timeline, so this start makes no copies in memory
  recorder::RunLog log;
  std::vector<StartStage> start_stages;
  std::optional<double> eval_loss;  // set if this run has evaluated the current state
  Size device_memory_bytes = 0;     // total memory of the machine, or of the CUDA device

 private:
  // Records the stage that began when the previous one ended.
  void started(const char* stage);
  void require_memory(Device device) const;
  void open_data();
  void open_tokenizer(const std::string& folder);
  // Loads the state. resolved.steps() follows from it with data.epochs.
  Start find_start();
  Start load_state();
  FromMemory load_from(const saver::MemoryRestore& memory, Size newest_on_disk);
  std::optional<FromOtherRun> begin_again();
  void load_initial_weights();
  void load_base_of_adapters();
  void require_same_data() const;
  void require_same_tokenizer();
  bool begins_other_data() const;

  std::unique_ptr<TokenLoader> opened_;  // the files of the configuration
  double dense_flops_ = 0;               // the device's dense peak in FLOP/s; 0: unknown
  std::chrono::steady_clock::time_point stage_begin_ = std::chrono::steady_clock::now();
};

// Writes config.toml, env.json and arena.svg, logs the lines at the start of a run and writes the event `start`. All
// ranks must call it.
void announce(Run& run, const std::string& command);

}  // namespace lt::run
