// Loads the state before the start is final, because loading may find a damaged checkpoint and skip it.
#include "run/find_start.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "checkpoints/format/find.h"
#include "checkpoints/format/load.h"
#include "checkpoints/hugging_face/base_weights.h"
#include "checkpoints/hugging_face/hf_folder.h"
#include "comm/value_exchange.h"
#include "config/base_model.h"
#include "io/entropy.h"
#include "io/utf8.h"
#include "libtrain/error.h"
#include "run/run_files.h"
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

class Finder {
 public:
  Finder(Resolved& resolved, const Group& control, Engine& engine, RunFolder& folder,
         const std::vector<checkpoint::DataFile>& data_files)
      : resolved_(resolved), control_(control), engine_(engine), folder_(folder), data_files_(data_files) {}

  FoundStart find();

 private:
  Start load_state();
  FromMemory load_from(const saver::MemoryRestore& memory, Size newest_on_disk);
  std::optional<FromOtherRun> begin_again();
  void add_last_start(checkpoint::RunState& state) const;
  void load_initial_weights();
  void load_base_of_adapters();
  bool begins_other_data() const;

  Resolved& resolved_;
  const Group& control_;
  Engine& engine_;
  RunFolder& folder_;
  const std::vector<checkpoint::DataFile>& data_files_;
  FoundStart found_;
};

// The position in a checkpoint's data means nothing in other files, in samples of another length, or in another order.
// On rank 0.
bool Finder::begins_other_data() const {
  const checkpoint::RunState& state = state_of(found_.start);
  if (state.samples == 0 || state.data_files.empty() || data_files_.empty())
    return false;  // or a program's own batches
  const auto earlier = state.config.empty() ? std::nullopt : config::known_config(state, resolved_.config.models);
  const bool other_samples =
      earlier && (earlier->train.seq != resolved_.step.seq || !order_changes(*earlier, resolved_.config).empty());
  return other_samples || difference_of(data_files_, {state.data_files, ""});
}

FoundStart Finder::find() {
  found_.start = load_state();
  if (!std::holds_alternative<FromMemory>(found_.start)) folder_.identity.timeline = io::random_hex(16);
  if (resolved_.has_adapters()) {
    load_base_of_adapters();
  } else if (std::holds_alternative<Fresh>(found_.start)) {
    load_initial_weights();
  }
  if (auto* const other = std::get_if<FromOtherRun>(&found_.start)) {
    bool is_other = false;
    collectively(control_, [&] { is_other = control_.rank() == 0 && begins_other_data(); });
    other->begins_data = comm::broadcast_value(control_, is_other);
    if (other->begins_data) engine_.set_progress(engine_.steps_done(), 0);
  }
  if (engine_.steps_done() > 0) {  // data.epochs counts the samples that are left
    collectively(control_, [&] {
      set_steps_of_epochs(resolved_, control_.size(), engine_.steps_done(), engine_.samples_done());
    });
  }
  // A copy in memory of the last step is no checkpoint: the run still saves one.
  auto* const disk = std::get_if<FromDisk>(&found_.start);
  if (disk != nullptr && engine_.steps_done() >= resolved_.steps()) {
    checkpoint::Loaded last = std::move(disk->checkpoint);
    found_.start = Complete{std::move(last)};
  }
  return std::move(found_);
}

// Loads the newer of the checkpoint on disk and the copy in the hosts' memory.
Start Finder::load_state() {
  // Adapters of a new run, and a base without model.from, are in no file.
  if (resolved_.has_adapters()) engine_.initialise();
  const bool goes_on = resolved_.resume == Resume::automatic;
  std::optional<saver::MemoryRestore> memory;
  if (resolved_.checkpoint.memory_every > 0 && goes_on) {
    memory.emplace(control_, control_.broadcast_bytes(folder_.identity.id, 0),
                   control_.broadcast_bytes(folder_.identity.timeline, 0));
  }
  const checkpoint::Listing* newest = checkpoint::newest_valid(folder_.candidates);
  Size newest_on_disk = comm::broadcast_value(control_, newest == nullptr ? Size{-1} : newest->step);
  checkpoint::Loaded loaded;
  if (!memory || memory->step() == 0 || memory->step() <= newest_on_disk) {
    loaded = saver::load_engine(engine_, folder_.candidates, control_, &found_.passed_over);
    newest_on_disk = loaded.folder.empty() ? -1 : engine_.steps_done();
  }
  // Also applies if the newest checkpoint on disk turned out to be damaged.
  if (memory && memory->step() > engine_.steps_done()) return load_from(*memory, newest_on_disk);
  if (!loaded.folder.empty()) return goes_on ? Start(FromDisk{loaded}) : Start(FromOtherRun{loaded});
  collectively(control_, [&] {
    if (control_.rank() != 0 || resolved_.resume == Resume::never) return;
    if (!goes_on)
      throw checkpoint::no_valid_checkpoint(resolved_.checkpoint.resume, found_.passed_over, "checkpoint.resume");
    require_readable_checkpoints(resolved_, folder_);
    require_no_other_checkpoints(resolved_, folder_.identity);
  });
  if (auto again = goes_on ? begin_again() : std::nullopt) return std::move(*again);
  return Fresh{};
}

void Finder::load_initial_weights() {
  if (resolved_.weights.from.empty()) return engine_.initialise();
  const bool is_hf = control_.rank() == 0 && checkpoint::is_hf_folder(resolved_.weights.from);
  if (comm::broadcast_value(control_, is_hf)) {
    saver::load_hf_weights(engine_, resolved_.weights.from, control_);
    found_.weights = resolved_.weights.from;
    return;
  }
  std::vector<std::string> notes;
  found_.weights =
      saver::load_weights(engine_, candidates_of_any_run(resolved_.weights.from, control_), control_, &notes).folder;
  if (found_.weights.empty()) {
    collectively(control_, [&] {
      if (control_.rank() == 0) throw checkpoint::no_valid_checkpoint(resolved_.weights.from, notes, "model.from");
    });
  }
  found_.passed_over.insert(found_.passed_over.end(), notes.begin(), notes.end());
}

// A run that began from another run's checkpoint and has saved nothing begins there again.
std::optional<FromOtherRun> Finder::begin_again() {
  const std::string from = control_.broadcast_bytes(folder_.identity.begun_from, 0);
  if (from.empty()) return std::nullopt;
  std::vector<std::string> notes;
  FromOtherRun again{saver::load_engine(engine_, candidates_of_any_run(from, control_), control_, &notes)};
  collectively(control_, [&] {
    if (!again.checkpoint.folder.empty() || control_.rank() != 0) return;
    const DataError why = checkpoint::no_valid_checkpoint(from, notes, resolved_.run.dir + "/run.json: begun_from");
    throw DataError(why.component(), why.what(),
                    "--run.force with --checkpoint.resume=FOLDER begins anew, from another checkpoint");
  });
  found_.passed_over.insert(found_.passed_over.end(), notes.begin(), notes.end());
  return again;
}

// A run that goes on loads the base that its checkpoint or run.json names, not the newest in model.from: a folder of
// checkpoints may have got a newer one.
void Finder::load_base_of_adapters() {
  checkpoint::RunState state = state_of(found_.start);
  collectively(control_, [&] {
    if (control_.rank() != 0) return;
    const bool goes_on = resolved_.resume == Resume::automatic,
               is_from_memory = std::holds_alternative<FromMemory>(found_.start);
    const checkpoint::Listing* const newest = checkpoint::newest_valid(folder_.candidates);
    const checkpoint::Loaded* const loaded = checkpoint_of(found_.start);
    std::string step = loaded == nullptr ? "" : loaded->folder;
    if (is_from_memory && newest != nullptr) step = newest->path, state = checkpoint::read_state(step);
    // Not what another run's checkpoint names.
    if ((goes_on && std::holds_alternative<FromOtherRun>(found_.start)) || (is_from_memory && newest == nullptr)) {
      state.base = folder_.identity.base, state.base_digest = folder_.identity.base_digest;
      state.base_beside.clear();
    }
    if (goes_on && !state.base.empty()) {
      // In a configuration from before a move, model.from names no base any more.
      const bool is_there = checkpoint::base_at(resolved_.weights.from).has_value();
      found_.base = checkpoint::find_base(state, step, is_there ? resolved_.weights.from : "");
    } else if (!resolved_.weights.from.empty()) {
      found_.base = checkpoint::find_base(resolved_.weights.from);
    }
    if (!found_.base.empty()) found_.base = std::filesystem::absolute(found_.base).lexically_normal();
    if (io::valid_utf8_bytes(found_.base) < found_.base.size()) {  // manifest.json could not name it
      throw UsageError(
          "config",
          fmt::format("model.from {}: expected a path in UTF-8, found {}", resolved_.weights.from, found_.base),
          "adapters name the folder of their base: rename it, or its parents");
    }
  });
  found_.base = control_.broadcast_bytes(found_.base, 0);
  std::optional<checkpoint::BaseWeights> read;
  collectively(control_, [&] { read.emplace(found_.base, *resolved_.transformer, resolved_.step.seed); });
  collectively(control_, [&] {
    if (control_.rank() != 0) return;
    if (!state.base_digest.empty()) read->require_digest(state);
    found_.base_digest = read->digest();
    folder_.identity.base = found_.base, folder_.identity.base_digest = found_.base_digest;
  });
  found_.base_digest = control_.broadcast_bytes(found_.base_digest, 0);
  if (!found_.base.empty()) saver::load_base(engine_, *read, control_);
  found_.weights = found_.base;
}

FromMemory Finder::load_from(const saver::MemoryRestore& memory, Size newest_on_disk) {
  const checkpoint::CopySeal seal = memory.load(engine_);
  FromMemory from{.step = seal.step, .newest_on_disk = newest_on_disk, .state = {}};
  from.state.step = seal.step, from.state.data_tokens = seal.data_tokens;
  from.state.program = memory.program_state();
  collectively(control_, [&] {
    if (control_.rank() == 0) add_last_start(from.state);
    const checkpoint::Listing* const newest = checkpoint::newest_valid(folder_.candidates);
    if (newest == nullptr) return;
    const checkpoint::RunState saved = checkpoint::read_state(newest->path);
    from.state.config_hash = saved.config_hash;
    from.state.tokenizer = saved.tokenizer, from.state.tokenizer_files = saved.tokenizer_files;
  });
  return from;
}

// Sets what a checkpoint of the last start would contain for the comparison of bits. The last start ran on this host,
// so auto chose the same device. Copies need the same number of ranks, so it had as many as this start. If it ended
// before its first copy, the copies are of an earlier start, with which nothing is compared.
void Finder::add_last_start(checkpoint::RunState& state) const {
  state.computed_by = computed_by_of_last_start(resolved_.run.dir);
  std::optional<Config> last = config::config_of_run(resolved_.run.dir, resolved_.config.models);
  if (!last || !(is_elastic(*last) || is_elastic(resolved_.config))) return;
  TrainConfig& train = last->train;
  train.device = train.device.value_or(best_device());
  if (!train.dtype && resolved_.config.derived.contains("train.dtype")) train.dtype = resolved_.config.train.dtype;
  if (train.global_batch == 0) train.global_batch = control_.size() * train.micro_batch * train.accum;
  if (is_elastic(*last) && train.device == DeviceType::cpu) {
    state.threads_per_rank = threads_of_last_start(resolved_.run.dir);
  }
  state.config = to_toml(*last);
}

}  // namespace

FoundStart find_start(Resolved& resolved, const Group& control, Engine& engine, RunFolder& folder,
                      const std::vector<checkpoint::DataFile>& data_files) {
  return Finder(resolved, control, engine, folder, data_files).find();
}

}  // namespace lt::run
