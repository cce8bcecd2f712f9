// Saves a run's state to its checkpoint folder and says so.
#include "train/saver.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/fault.h"
#include "libtrain/checkpoint.h"
#include "libtrain/part_clock.h"
#include "train/engine_checkpoint.h"
#include "train/model_json.h"
#include "train/same_run.h"
#include "train/seconds.h"

namespace lt {
namespace {

checkpoint::RunState state_of_run(const Run& run) {
  checkpoint::RunState state = state_of(*run.engine);
  state.data_tokens = run.data == nullptr ? 0 : run.data->tokens();
  state.seed = run.config.train.seed;
  state.config = to_toml(run.config), state.config_hash = config_hash(run.config);
  state.model = to_json(run.model->spec(), run.config.train.seq);
  state.tokenizer = run.tokenizer_text;
  return state;
}

}  // namespace

Saver::Saver(Run& run) : run_(run) {
  if (!run.start.checkpoint.empty()) last_saved_ = run.steps_done();
}

void Saver::save() {
  const Size step = run_.steps_done();
  if (last_saved_ == step) return;
  const PartScope part(Part::checkpoint);
  fault_point("save-begin");
  const auto begin = std::chrono::steady_clock::now();
  collectively(run_.control, [&] { run_.log.sync(); });  // rows before the checkpoint that they led to
  const std::string path = checkpoint::save(run_.config.checkpoint.dir, run_.engine->shard_map(), state_of_run(run_),
                                            run_.control, static_cast<int>(run_.config.checkpoint.keep));
  last_saved_ = step;
  run_.log.event({{"event", "checkpoint"}, {"step", step}, {"path", path}, {"seconds", seconds_since(begin)}});
  run_.log.say(fmt::format("saved {}", path));
}

}  // namespace lt
