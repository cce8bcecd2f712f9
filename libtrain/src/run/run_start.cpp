// Loads the state from which a run goes on, on all ranks, and says which of the five kinds it is.
#include "run/run_start.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "checkpoints/hugging_face/base_weights.h"
#include "checkpoints/hugging_face/hf_folder.h"
#include "comm/value_exchange.h"
#include "config/base_model.h"
#include "io/entropy.h"
#include "io/utf8.h"
#include "libtrain/error.h"
#include "nn/lora.h"
#include "run/run.h"
#include "run/same_data.h"
#include "run/same_run.h"
#include "run/training_data.h"
#include "save/engine_checkpoint.h"
#include "save/memory_restore.h"

namespace lt::run {
namespace {

// On rank 0, which alone looks. Throws on all ranks.
std::vector<checkpoint::Listing> candidates_of_any_run(const std::string& path, const Group& group) {
  std::vector<checkpoint::Listing> candidates;
  collectively(group, [&] {
    if (group.rank() == 0) candidates = checkpoint::candidates(path, checkpoint::kAnyRun);
  });
  return candidates;
}

}  // namespace

// The position in a checkpoint's data means nothing in other files, in samples of another length, or in another order.
// On rank 0.
bool Run::begins_other_data() const {
  const checkpoint::RunState& state = state_of(start);
  if (state.samples == 0 || state.data_files.empty() || data_files.empty()) return false;  // or a program's own batches
  const auto earlier = state.config.empty() ? std::nullopt : config::known_config(state, resolved.config.models);
  const bool other_samples =
      earlier && (earlier->train.seq != resolved.step.seq || !order_changes(*earlier, resolved.config).empty());
  return other_samples || difference_of(data_files, {state.data_files, ""});
}

Start Run::find_start() {
  start = load_state();
  if (!std::holds_alternative<FromMemory>(start)) folder.identity.timeline = io::random_hex(16);
  if (continues_itself()) eval_loss = state_of(start).eval_loss;
  if (resolved.has_adapters()) {
    load_base_of_adapters();
  } else if (std::holds_alternative<Fresh>(start)) {
    load_initial_weights();
  }
  if (auto* const other = std::get_if<FromOtherRun>(&start)) {
    bool is_other = false;
    collectively(control, [&] { is_other = world.rank() == 0 && begins_other_data(); });
    other->begins_data = comm::broadcast_value(control, is_other);
    if (other->begins_data) engine->set_progress(steps_done(), 0);
  }
  if (steps_done() > 0) {  // data.epochs counts the samples that are left
    collectively(control, [&] { set_steps_of_epochs(resolved, world.size(), steps_done(), engine->samples_done()); });
  }
  auto* const disk = std::get_if<FromDisk>(&start);
  if (disk != nullptr && steps_done() >= resolved.steps()) return Complete{std::move(disk->checkpoint)};
  return std::move(start);
}

// Loads the newer of the checkpoint on disk and the copy in the hosts' memory.
Start Run::load_state() {
  // No file holds the adapters of a new run, or a base without model.from.
  if (resolved.has_adapters()) engine->initialise();
  const bool goes_on = resolved.resume == Resume::automatic;
  std::optional<saver::MemoryRestore> memory;
  if (resolved.checkpoint.memory_every > 0 && goes_on) {
    memory.emplace(control, control.broadcast_bytes(folder.identity.id, 0),
                   control.broadcast_bytes(folder.identity.timeline, 0));
  }
  const checkpoint::Listing* newest = checkpoint::newest_valid(folder.candidates);
  Size newest_on_disk = comm::broadcast_value(control, newest == nullptr ? Size{-1} : newest->step);
  checkpoint::Loaded loaded;
  if (!memory || memory->step() == 0 || memory->step() <= newest_on_disk) {
    loaded = saver::load_engine(*engine, folder.candidates, control, &passed_over);
    newest_on_disk = loaded.folder.empty() ? -1 : steps_done();
  }
  // Also applies if the newest checkpoint on disk turned out to be damaged.
  if (memory && memory->step() > steps_done()) return load_from(*memory, newest_on_disk);
  if (!loaded.folder.empty()) return goes_on ? Start(FromDisk{loaded}) : Start(FromOtherRun{loaded});
  collectively(control, [&] {
    if (world.rank() != 0 || resolved.resume == Resume::never) return;
    if (!goes_on) throw checkpoint::no_valid_checkpoint(resolved.checkpoint.resume, passed_over, "checkpoint.resume");
    require_readable_checkpoints(resolved, folder);
    require_no_other_checkpoints(resolved, folder.identity);
  });
  if (auto again = goes_on ? begin_again() : std::nullopt) return std::move(*again);
  return Fresh{};
}

void Run::load_initial_weights() {
  if (resolved.weights.from.empty()) return engine->initialise();
  const bool is_hf = world.rank() == 0 && checkpoint::is_hf_folder(resolved.weights.from);
  if (comm::broadcast_value(control, is_hf)) {
    saver::load_hf_weights(*engine, resolved.weights.from, control);
    weights = resolved.weights.from;
    return;
  }
  std::vector<std::string> notes;
  weights = saver::load_weights(*engine, candidates_of_any_run(resolved.weights.from, control), control, &notes).folder;
  if (weights.empty()) {
    collectively(control, [&] {
      if (world.rank() == 0) throw checkpoint::no_valid_checkpoint(resolved.weights.from, notes, "model.from");
    });
  }
  passed_over.insert(passed_over.end(), notes.begin(), notes.end());
}

// A run that began from another run's checkpoint and has saved nothing begins there again.
std::optional<FromOtherRun> Run::begin_again() {
  const std::string from = control.broadcast_bytes(folder.identity.begun_from, 0);
  if (from.empty()) return std::nullopt;
  std::vector<std::string> notes;
  FromOtherRun again{saver::load_engine(*engine, candidates_of_any_run(from, control), control, &notes)};
  collectively(control, [&] {
    if (!again.checkpoint.folder.empty() || world.rank() != 0) return;
    const DataError why = checkpoint::no_valid_checkpoint(from, notes, resolved.run.dir + "/run.json: begun_from");
    throw DataError(why.component(), why.what(),
                    "--run.force with --checkpoint.resume=FOLDER begins anew, from another checkpoint");
  });
  passed_over.insert(passed_over.end(), notes.begin(), notes.end());
  return again;
}

// A run that goes on takes the base that its checkpoint or its run.json names if model.from holds it, because a folder
// of checkpoints may have a newer one now.
void Run::load_base_of_adapters() {
  checkpoint::RunState state = state_of(start);
  collectively(control, [&] {
    if (world.rank() != 0) return;
    const bool goes_on = resolved.resume == Resume::automatic,
               is_from_memory = std::holds_alternative<FromMemory>(start);
    const checkpoint::Listing* const newest = checkpoint::newest_valid(folder.candidates);
    const checkpoint::Loaded* const loaded = checkpoint_of(start);
    std::string step = loaded == nullptr ? "" : loaded->folder;
    if (is_from_memory && newest != nullptr) step = newest->path, state = checkpoint::read_state(step);
    // Not what another run's checkpoint names.
    if ((goes_on && !continues_itself()) || (is_from_memory && newest == nullptr)) {
      state.base = folder.identity.base, state.base_digest = folder.identity.base_digest;
      state.base_beside.clear();
    }
    if (goes_on && !state.base.empty()) {
      // In a configuration from before a move, model.from names no base any more.
      const bool is_there = checkpoint::base_at(resolved.weights.from).has_value();
      base = checkpoint::find_base(state, step, is_there ? resolved.weights.from : "");
    } else if (!resolved.weights.from.empty()) {
      base = checkpoint::find_base(resolved.weights.from);
    }
    if (!base.empty()) base = std::filesystem::absolute(base).lexically_normal();
    if (io::valid_utf8_bytes(base) < base.size()) {  // manifest.json could not name it
      throw UsageError("config",
                       fmt::format("model.from {}: expected a path in UTF-8, found {}", resolved.weights.from, base),
                       "adapters name the folder of their base: rename it, or its parents");
    }
  });
  base = control.broadcast_bytes(base, 0);
  std::optional<checkpoint::BaseWeights> read;
  collectively(control, [&] { read.emplace(base, *resolved.transformer, resolved.step.seed); });
  collectively(control, [&] {
    if (world.rank() != 0) return;
    if (!state.base_digest.empty()) read->require_digest(state);
    base_digest = read->digest();
    folder.identity.base = base, folder.identity.base_digest = base_digest;
  });
  base_digest = control.broadcast_bytes(base_digest, 0);
  if (!base.empty()) saver::load_base(*engine, *read, control);
  weights = base;
}

FromMemory Run::load_from(const saver::MemoryRestore& memory, Size newest_on_disk) {
  const checkpoint::CopySeal seal = memory.load(*engine);
  FromMemory from{.step = seal.step, .newest_on_disk = newest_on_disk, .state = {}};
  from.state.step = seal.step, from.state.data_tokens = seal.data_tokens;
  collectively(control, [&] {
    const checkpoint::Listing* const newest = checkpoint::newest_valid(folder.candidates);
    if (newest == nullptr) return;
    const checkpoint::RunState saved = checkpoint::read_state(newest->path);
    from.state.config_hash = saved.config_hash;
    from.state.tokenizer = saved.tokenizer, from.state.tokenizer_files = saved.tokenizer_files;
  });
  return from;
}

}  // namespace lt::run
