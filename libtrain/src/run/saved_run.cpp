// Collects the parts of a run that a saver needs.
#include "run/saved_run.h"

#include <filesystem>
#include <string>
#include <variant>

#include "config/model_table.h"
#include "run/same_run.h"
#include "save/engine_checkpoint.h"

namespace lt::run {
namespace {

// What a checkpoint of now says of the run.
checkpoint::RunState state_of_run(const Run& run, const LossScale& scale) {
  checkpoint::RunState state = saver::state_of(*run.engine, scale);
  state.data_tokens = run.data.batches == nullptr ? 0 : run.data.batches->tokens();
  state.seed = run.resolved.step.seed;
  if (is_elastic(run.resolved.config) && run.device() == kCpu) state.threads_per_rank = run.world.threads().count;
  state.computed_by = run.algorithms.computed_by;
  state.data_files = run.data.files;
  // A run keeps its hash where its data files have other names now.
  const std::string& earlier = state_of(run.from.start).config_hash;
  const bool goes_on = !run.begins_from_other_run() && !earlier.empty();
  Config config = run.resolved.config;
  config.derived.erase("train.dtype");  // a checkpoint is read on other devices, so it says the dtype itself
  state.config = to_toml(config), state.config_hash = goes_on ? earlier : config_hash(run.resolved.config);
  state.model = config::model_description(run.model, run.resolved);
  state.tokenizer = run.data.tokenizer_text, state.tokenizer_files = run.data.tokenizer_files;
  state.base = run.from.base, state.base_digest = run.from.base_digest;
  if (!run.from.base.empty()) {
    const auto checkpoints = std::filesystem::absolute(run.resolved.checkpoint.dir).lexically_normal();
    state.base_beside = std::filesystem::path(run.from.base).lexically_relative(checkpoints);
  }
  state.eval_loss = run.eval_loss;
  return state;
}

}  // namespace

saver::SavedRun saved_run(Run& run, const State& program) {
  const auto* const memory = std::get_if<FromMemory>(&run.from.start);
  // A run that begins from another run's checkpoint has no checkpoint of its own yet.
  const Size on_disk = std::holds_alternative<FromDisk>(run.from.start) ? run.steps_done() : -1;
  return {.engine = *run.engine,
          .control = run.control,
          .world = run.world.group(),
          .policy = run.resolved.checkpoint,
          .run_dir = run.resolved.run.dir,
          .identity = run.folder.identity,
          .log = run.log,
          .steps = run.resolved.steps(),
          .data_tokens = run.data.batches == nullptr ? 0 : run.data.batches->tokens(),
          .copies_to_memory = run.copies_to_memory(),
          .newest_on_disk = memory == nullptr ? on_disk : memory->newest_on_disk,
          .from_memory = memory == nullptr ? std::nullopt : std::optional(memory->step),
          .may_skip = run.resolved.skip_nonfinite > 0,
          .program = program,
          .state = [&run](const LossScale& scale) { return state_of_run(run, scale); }};
}

}  // namespace lt::run
