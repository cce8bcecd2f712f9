// Saves and loads an engine by passing its shard map to the checkpoint format.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "checkpoints/format/find.h"
#include "checkpoints/format/load.h"
#include "checkpoints/format/model_json.h"
#include "checkpoints/format/transfer.h"
#include "checkpoints/hugging_face/base_weights.h"
#include "checkpoints/hugging_face/hf_folder.h"
#include "config/model_table.h"
#include "kernels/step_numbers.h"
#include "libtrain/device/phase.h"
#include "libtrain/nn/models.h"
#include "libtrain/save/engine_checkpoint.h"
#include "nn/lora.h"
#include "save/engine_checkpoint.h"

namespace lt::saver {
namespace {

checkpoint::Loaded load_ranges(Engine& engine, const ShardMap& shards,
                               const std::vector<checkpoint::Listing>& candidates, const Group& group,
                               std::vector<std::string>* notes) {
  checkpoint::Loaded loaded = checkpoint::load_newest(candidates, shards, group, notes);
  if (!loaded.folder.empty()) engine.parameters_changed();
  if (loaded.folder.empty() && loaded.tried) engine.initialise();
  return loaded;
}

bool has_adapters(const std::vector<ParameterInfo>& parameters) {
  return std::ranges::any_of(parameters, nn::is_adapter, &ParameterInfo::name);
}

// Only a run knows the base of its adapters.
void require_no_adapters(const Engine& engine, const char* what) {
  if (!has_adapters(engine.shard_map().parameters)) return;
  throw UsageError("checkpoint", std::string(what) + ": expected a model without adapters, which train() saves");
}

}  // namespace

ShardMap saved_state(const Engine& engine) {
  ShardMap map = engine.shard_map();
  if (!has_adapters(map.parameters)) return map;
  std::erase_if(map.parameters, [](const ParameterInfo& parameter) { return !nn::is_adapter(parameter.name); });
  for (std::vector<StateRange>* ranges : {&map.owned, &map.needed}) {
    std::erase_if(*ranges, [](const StateRange& range) { return !nn::is_adapter(range.parameter); });
  }
  return map;
}

void load_base(Engine& engine, const checkpoint::BaseWeights& base, const Group& group) {
  const PhaseScope phase(Phase::load);
  std::vector<StateRange> ranges = engine.shard_map().needed;
  std::erase_if(ranges, [](const StateRange& r) { return nn::is_adapter(r.parameter) || r.begin == r.end; });
  collectively(group, [&] {
    checkpoint::Transfer transfer(engine.options().device);
    base.read(ranges, transfer);
    transfer.finish();
  });
  engine.parameters_changed();
}

checkpoint::RunState state_of(const Engine& engine, const LossScale& scale) {
  checkpoint::RunState state;
  state.run = engine.run().id, state.parent = engine.run().parent;
  state.step = engine.steps_done(), state.samples = engine.samples_done();
  state.loss_scale = scale.scale, state.loss_scale_steps = scale.steps, state.skipped = scale.skipped;
  return state;
}

void restore_loss_scale(Engine& engine, const LossScale& saved) {
  LossScale scale = saved;
  if (saved.scale == 1 && saved.steps == 0) scale.scale = kernels::kFirstLossScale;  // it was not in f16
  engine.set_loss_scale(scale);
}

checkpoint::Loaded load_engine(Engine& engine, const std::vector<checkpoint::Listing>& candidates, const Group& group,
                               std::vector<std::string>* notes) {
  checkpoint::Loaded loaded = load_ranges(engine, saved_state(engine), candidates, group, notes);
  if (loaded.folder.empty()) return loaded;
  const checkpoint::RunState& state = loaded.state;
  engine.set_progress(state.step, state.samples);
  restore_loss_scale(engine, {static_cast<float>(state.loss_scale), state.loss_scale_steps, state.skipped});
  return loaded;
}

checkpoint::Loaded load_weights(Engine& engine, const std::vector<checkpoint::Listing>& candidates, const Group& group,
                                std::vector<std::string>* notes) {
  ShardMap masters = engine.shard_map();
  std::erase_if(masters.needed, [](const StateRange& range) { return range.kind != kMaster; });
  return load_ranges(engine, masters, candidates, group, notes);
}

void load_hf_weights(Engine& engine, const std::string& folder, const Group& group) {
  const PhaseScope phase(Phase::load);
  ShardMap masters = engine.shard_map();
  std::erase_if(masters.needed,
                [](const StateRange& range) { return range.kind != kMaster || range.begin == range.end; });
  collectively(group, [&] {
    const checkpoint::HfFolder weights(folder);
    weights.require_parameters(masters.parameters);
    checkpoint::Transfer transfer(engine.options().device);
    weights.read(masters.needed, transfer);
  });
  engine.parameters_changed();
}

}  // namespace lt::saver

namespace lt {

std::string save(Engine& engine, const std::string& directory, const Group& group, const EngineSaveOptions& options) {
  saver::require_no_adapters(engine, "save");
  if (engine.run().id.empty()) engine.set_run({group.broadcast_bytes(checkpoint::draw_run_id(), 0), ""});
  checkpoint::RunState state = saver::state_of(engine, engine.loss_scale());
  state.seed = engine.options().seed;
  state.tokenizer = options.tokenizer, state.program = options.state;
  state.model = config::model_description(engine.model(), engine.options().seq);
  return checkpoint::save(directory, engine.shard_map(), state, group, {.keep = options.keep});
}

std::optional<State> load(Engine& engine, const std::string& directory, const Group& group) {
  saver::require_no_adapters(engine, "load");
  std::vector<checkpoint::Listing> candidates;
  collectively(group, [&] {
    if (group.rank() == 0) candidates = checkpoint::candidates(directory, checkpoint::kAnyRun);
  });
  std::vector<std::string> notes;
  const checkpoint::Loaded loaded = saver::load_engine(engine, candidates, group, &notes);
  for (const std::string& note : notes) std::fprintf(stderr, "warning: [checkpoint] passed over: %s\n", note.c_str());
  collectively(group, [&] {
    if (group.rank() != 0 || candidates.empty() || !loaded.folder.empty()) return;
    const DataError none = checkpoint::no_valid_checkpoint(directory, notes);
    throw DataError(none.component(), none.what(), "move the folder aside to begin anew");
  });
  if (loaded.folder.empty()) return std::nullopt;
  engine.set_run({loaded.state.run, loaded.state.parent});
  return loaded.state.program;
}

}  // namespace lt
