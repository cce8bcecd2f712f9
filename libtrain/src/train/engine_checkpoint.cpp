// Saving and loading an engine: its shard map handed to the checkpoint format.
#include <cstdio>

#include "libtrain/engine_checkpoint.h"
#include "libtrain/models.h"
#include "train/engine_checkpoint.h"
#include "train/model_json.h"

namespace lt {

checkpoint::RunState state_of(const Engine& engine) {
  const LossScale scale = engine.loss_scale();
  checkpoint::RunState state;
  state.run = engine.run().id, state.parent = engine.run().parent;
  state.step = engine.steps_done(), state.samples = engine.samples_done();
  state.loss_scale = scale.scale, state.loss_scale_steps = scale.steps, state.skipped = scale.skipped;
  return state;
}

void load_engine(Engine& engine, const std::string& step_directory, const Group& group) {
  collectively(group, [&] { checkpoint::load(step_directory, engine.shard_map()); });
  engine.parameters_changed();
  const checkpoint::RunState state = checkpoint::read_state(step_directory);
  engine.set_progress(state.step, state.samples);
  // A run in another dtype has none: 1 and no counts.
  if (state.loss_scale != 1 || state.loss_scale_steps > 0 || state.skipped > 0) {
    engine.set_loss_scale({static_cast<float>(state.loss_scale), state.loss_scale_steps, state.skipped});
  }
}

std::string save(Engine& engine, const std::string& directory, const Group& group, int keep,
                 const std::string& tokenizer) {
  if (engine.run().id.empty()) engine.set_run({group.broadcast_bytes(checkpoint::draw_run_id(), 0), ""});
  checkpoint::RunState state = state_of(engine);
  state.seed = engine.options().seed;
  state.tokenizer = tokenizer;
  // What `ltrain sample` and `export` need; a model of one's own is read by its own program alone.
  if (const auto* transformer = dynamic_cast<const nn::Transformer*>(&engine.model())) {
    state.model = to_json(transformer->spec(), engine.options().seq);
  }
  return checkpoint::save(directory, engine.shard_map(), state, group, {.keep = keep, .version_1 = true});
}

bool load(Engine& engine, const std::string& directory, const Group& group) {
  std::string found;
  collectively(group, [&] {
    if (group.rank() != 0) return;
    std::vector<std::string> notes;
    found = checkpoint::find_newest(directory, checkpoint::kEverybodys, &notes, true).value_or("");
    for (const std::string& note : notes) std::fprintf(stderr, "warning: [checkpoint] passed over: %s\n", note.c_str());
  });
  found = group.broadcast_bytes(found, 0);
  if (found.empty()) return false;
  load_engine(engine, found, group);
  const checkpoint::RunState state = checkpoint::read_state(found);
  engine.set_run({state.run, state.parent});
  return true;
}

}  // namespace lt
