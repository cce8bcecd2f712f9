// Schedules saves and retries, and runs them here or in the background.
#include "save/saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "checkpoints/format/files.h"
#include "comm/value_exchange.h"
#include "libtrain/device/phase.h"
#include "libtrain/error.h"
#include "profile/activity_clock.h"
#include "record/short_text.h"
#include "save/engine_checkpoint.h"
#include "save/run_identity.h"
#include "tensor/host_memory.h"

namespace lt::saver {
namespace {

// A failed save is retried 1, 2, 4, ... steps later. After this many attempts the next attempt waits for the cadence.
// At the end of a run the delays are in seconds instead of steps.
constexpr int kMostAttempts = 8, kMostFinalAttempts = 5;

Size back_off(int attempts) { return Size{1} << (attempts - 1); }

std::unique_ptr<StateCopy> state_copy_for(const SavedRun& run) {
  if (!run.policy.async.value_or(false) && !run.copies_to_memory) return nullptr;
  return std::make_unique<StateCopy>(run.engine, saved_state(run.engine).owned, run.may_skip);
}

// Syncs the rows that led to a checkpoint to disk before the checkpoint. A busy disk takes a second for them, so this
// runs while training goes on. Failures are ignored, because the log warns about lost rows.
void sync_rows(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    try {
      checkpoint::sync_file(file);
    } catch (const DataError&) {
    }
  }
}

}  // namespace

// A started copy whose save has not begun.
struct Saver::StartedCopy {
  Size step;
  std::shared_ptr<void> buffer;
  Event copied;
  double stall_seconds;
};

// The background thread, and the two buffers from which it writes in turn.
struct Saver::Background {
  explicit Background(const Group& world) : group(world.duplicate_patient("checkpoints")) {}

  // Begins to take memory for the buffers, unless that has begun. Mapping and pinning a GPU's buffers takes seconds, so
  // training continues.
  void take_memory(Device device, Size bytes) {
    if (has_begun()) return;
    allocation = std::async(std::launch::async, [device, bytes] {
      std::array<std::shared_ptr<void>, kSaveBuffers> made;
      for (auto& buffer : made) buffer = tensor::host_memory(device, bytes);
      return made;
    });
  }
  bool has_begun() const { return allocation.valid() || buffers.front() != nullptr; }
  // Waits until the memory is there. Returns why some rank has none; empty if all ranks have it. All ranks must call
  // it.
  std::string wait_for_memory(const Group& control) {
    if (!allocation.valid()) return {};
    std::string why;
    try {
      buffers = allocation.get();
    } catch (const std::exception& error) {
      why = fmt::format("rank {}: {}", control.rank(), error.what());
    }
    for (const std::string& text : control.all_gather_bytes(why)) {
      if (!text.empty()) return text;
    }
    return {};
  }
  const std::shared_ptr<void>& next_buffer() { return buffers[static_cast<std::size_t>(begun++ % kSaveBuffers)]; }

  const Group group;  // used only by the thread
  std::future<std::array<std::shared_ptr<void>, kSaveBuffers>> allocation;
  std::array<std::shared_ptr<void>, kSaveBuffers> buffers;
  Size begun = 0;
  std::optional<StartedCopy> started;
  BackgroundSaves saves;  // last member, so that its thread ends first
};

Saver::Saver(SavedRun run)
    : run_(std::move(run)),
      recorded_(std::make_shared<RecordedSteps>(run_.engine.steps_done())),
      copy_(state_copy_for(run_)),
      last_begun_(run_.newest_on_disk),
      last_saved_(run_.newest_on_disk),
      last_begin_(run_.now()) {
  if (!run_.policy.async.value_or(false)) return;
  background_ = std::make_unique<Background>(run_.world);
  const bool only_by_minutes = run_.policy.every == 0 && run_.policy.every_minutes > 0;
  if (!only_by_minutes) take_memory();
}

void Saver::take_memory() {
  if (background_) background_->take_memory(run_.engine.options().device, copy_->bytes());
}

bool Saver::saves_in_background() const { return background_ && background_->has_begun(); }

// Without memory for the copies a run still saves.
void Saver::require_memory_or_block() {
  if (!saves_in_background()) return;
  const profile::ActivityScope activity(Activity::checkpoint);
  const PhaseScope phase(Phase::save);
  const auto begin = run_.now();
  const std::string why = background_->wait_for_memory(run_.control);
  waited_s_ += seconds_since(begin);
  if (why.empty()) return;
  background_.reset();
  run_.log.say(
      fmt::format("warning: checkpoint.async: no memory for two copies of the state, {:.3f} GiB ({}); training "
                  "waits for each save",
                  static_cast<double>(kSaveBuffers * copy_->bytes()) / (1 << 30), why));
}

void Saver::begin_memory_copies() {
  if (!run_.copies_to_memory) return;
  if (run_.from_memory && !MemoryCheckpoints::keeps_copies(*copy_, run_.control, run_.identity)) {
    save_before_copies_go();
  }
  memory_ = std::make_unique<MemoryCheckpoints>(run_.engine, *copy_, run_.control, run_.identity, run_.data_tokens,
                                                recorded_);
  run_.log.say(fmt::format("copies in memory: every {}, {:.3f} GiB a rank{}",
                           run_.policy.memory_every == 1 ? "step" : recorder::counted(run_.policy.memory_every, "step"),
                           static_cast<double>(kMemorySlots * copy_->bytes()) / (1 << 30),
                           memory_->is_mirrored() ? ", and as much on the next host" : ""));
  if (run_.engine.options().cuda_graph && run_.policy.memory_every == 1) {
    run_.log.say(
        "train.cuda_graph: no step runs as a graph, because each step copies the state (checkpoint.memory_every=1)");
  }
}

// The copies that this start resumed from are removed next, and nothing else may have their step.
void Saver::save_before_copies_go() {
  const PhaseScope phase(Phase::save);
  run_.log.say("copies in memory: other ranks or hosts hold other parts now; the state is saved to disk first");
  save();
  conclude_all();
  if (last_saved_ == run_.engine.steps_done()) return;
  const Error& why = failure_->error;
  throw DataError(why.component(), why.what(),
                  "the copies in memory stay; make room and start the same command again to resume from them");
}

Saver::~Saver() { recorded_->close(); }

bool Saver::is_due(Size step) {
  const Size every = run_.policy.every;
  const Minutes minutes = minutes_passed();  // collective, so every rank calls it at every step
  if (minutes != Minutes::early) take_memory();
  const bool is_due =
      minutes == Minutes::over || (every > 0 && step % every == 0) || (failure_ && failure_->retry_at == step);
  if (is_due) require_memory_or_block();
  return is_due;
}

bool Saver::has_missed() const {
  const Size every = run_.policy.every;
  const Size from = run_.from_memory.value_or(0);
  return every > 0 && from >= every && from / every * every > run_.newest_on_disk;
}

double Saver::seconds_since(std::chrono::steady_clock::time_point begin) const {
  return std::chrono::duration<double>(run_.now() - begin).count();
}

// The ranks' clocks differ; rank 0 decides.
Saver::Minutes Saver::minutes_passed() const {
  const double limit_s = run_.policy.every_minutes * 60, seconds = seconds_since(last_begin_);
  if (limit_s <= 0) return Minutes::early;
  const Minutes here = seconds >= limit_s       ? Minutes::over
                       : 2 * seconds >= limit_s ? Minutes::half_over
                                                : Minutes::early;
  return comm::broadcast_value(run_.control, here);
}

void Saver::save() {
  const Size step = run_.engine.steps_done();
  if (last_begun_ == step) return;
  const profile::ActivityScope activity(Activity::checkpoint);
  const PhaseScope phase(Phase::save);
  last_begun_ = step;
  last_begin_ = run_.now();
  require_memory_or_block();
  saves_in_background() ? save_in_background(step) : conclude(save_now(step));
  last_begin_ = run_.now();  // checkpoint.every_minutes counts the time between saves
}

SaveOutcome Saver::save_now(Size step) {
  SaveOutcome outcome{step, {}, {}};
  run_.log.sync();  // the rows that led to the checkpoint
  try {
    checkpoint::RunState state = run_.state(run_.engine.loss_scale());
    state.program = run_.program;
    outcome.path = checkpoint::save(run_.policy.dir, saved_state(run_.engine), state, run_.control,
                                    save_options(run_.policy, run_.identity));
  } catch (const DataError& error) {
    outcome.error = error;
  }
  outcome.seconds = outcome.stall_seconds = seconds_since(last_begin_);
  return outcome;
}

void Saver::recorded(Size step) {
  if (program_.step == step) *program_.state = run_.program;
  recorded_->add(step);
}

// The program's state after the last step done. If that step is not recorded yet, recorded() fills it in.
std::shared_ptr<const State> Saver::program_state() {
  const Size step = run_.engine.steps_done();
  if (program_.step == step) return program_.state;
  program_ = {step, std::make_shared<State>()};
  if (recorded_->has(step)) *program_.state = run_.program;
  return program_.state;
}

void Saver::start_copies(bool saves) {
  if (saves) require_memory_or_block();
  const bool to_disk = saves && saves_in_background() && last_begun_ != run_.engine.steps_done();
  const bool to_memory = memory_ != nullptr && run_.engine.steps_done() % run_.policy.memory_every == 0;
  if (!to_disk && !to_memory) return;
  const profile::ActivityScope activity(Activity::checkpoint);
  const PhaseScope phase(Phase::save);
  if (to_disk) start_copy();
  if (to_memory) memory_->copy(program_state());
}

void Saver::start_copy() {
  const auto begin = run_.now();
  if (background_->saves.outstanding() == kSaveBuffers) conclude(background_->saves.take());
  const std::shared_ptr<void>& buffer = background_->next_buffer();
  const Event copied = copy_->start(buffer.get());
  background_->started = {run_.engine.steps_done(), buffer, copied, std::exchange(waited_s_, 0) + seconds_since(begin)};
}

void Saver::save_in_background(Size step) {
  if (!background_->started || background_->started->step != step) start_copy();
  const auto begin = run_.now();
  const StartedCopy copy = *std::exchange(background_->started, std::nullopt);
  ShardMap map = saved_state(run_.engine);
  map.owned = copy_->ranges_in(copy.buffer), map.needed.clear();
  checkpoint::RunState state = run_.state(copy_->loss_scale());
  const double stall_seconds = copy.stall_seconds + seconds_since(begin);
  // Capture everything by value: during stack unwinding the thread may outlive this object.
  background_->saves.add(
      step, stall_seconds,
      [copied = copy.copied, recorded = recorded_, dir = run_.policy.dir,
       options = save_options(run_.policy, run_.identity), state = std::move(state), program = program_state(),
       map = std::move(map), group = background_->group, rows = run_.log.row_files()]() mutable {
        copied.synchronize();
        if (!recorded->wait_for(state.step)) return std::string();
        sync_rows(rows);
        state.program = *program;
        return checkpoint::save(dir, map, state, group, options);
      });
}

void Saver::give_up() {
  recorded_->close();
  conclude_all();
}

void Saver::drop_memory() {
  if (memory_ != nullptr) memory_->remove();
}

void Saver::conclude_finished() {
  if (!background_ || background_->saves.outstanding() == 0) return;
  const PhaseScope phase(Phase::save);
  // Saves end at different times on different ranks, but all ranks must conclude a save at the same step.
  int finished = background_->saves.outstanding();
  for (const int count : comm::gather_values(run_.control, background_->saves.finished()))
    finished = std::min(finished, count);
  for (; finished > 0; --finished) conclude(background_->saves.take());
}

void Saver::conclude_all() {
  while (background_ && background_->saves.outstanding() > 0) conclude(background_->saves.take());
}

void Saver::conclude(const SaveOutcome& outcome) {
  if (outcome.error && outcome.error->code() != ExitCode::data) throw *outcome.error;
  if (outcome.path.empty() && !outcome.error) return;  // given up
  outcome.error ? conclude_failure(outcome) : conclude_success(outcome);
}

void Saver::conclude_success(const SaveOutcome& outcome) {
  failure_.reset();
  last_saved_ = outcome.step;
  run_.log.event({{"event", "checkpoint"},
                  {"step", outcome.step},
                  {"path", outcome.path},
                  {"seconds", outcome.seconds},
                  {"stall_seconds", outcome.stall_seconds}});
  run_.log.say(fmt::format("saved {}", outcome.path));
}

void Saver::conclude_failure(const SaveOutcome& outcome) {
  const int attempts = failure_ ? failure_->attempts + 1 : 1;
  const Size done = run_.engine.steps_done();
  const bool of_last_step = final_attempt_ > 0 && outcome.step == done;
  Size retry_at = 0;  // 0: no retry after a step
  if (!of_last_step && attempts < kMostAttempts) {
    retry_at = std::max(done, std::min(done + back_off(attempts), run_.steps));
  }
  if (outcome.step == last_begun_) last_begun_ = last_saved_;
  failure_ = {attempts, retry_at, *outcome.error};
  run_.log.event({{"event", "checkpoint_failed"},
                  {"step", outcome.step},
                  {"error", outcome.error->what()},
                  {"attempt", attempts},
                  {"retry_step", retry_at > 0 ? nlohmann::ordered_json(retry_at) : nlohmann::ordered_json(nullptr)}});
  std::string next;
  if (of_last_step) {
    next = final_attempt_ < kMostFinalAttempts
               ? fmt::format("next attempt in {} s", back_off(final_attempt_))
               : fmt::format("the last of {} attempts at the end of the run", kMostFinalAttempts);
  } else if (retry_at > 0) {
    next = fmt::format("next attempt after step {} at the latest", retry_at);
  } else {
    next =
        fmt::format("the next save by cadence is the next attempt, after {}", recorder::counted(attempts, "failure"));
  }
  run_.log.say(fmt::format("warning: step {} was not saved, {}: {}", outcome.step, next, outcome.error->what()));
}

void Saver::finish() {
  const PhaseScope phase(Phase::save);
  for (final_attempt_ = 1;; ++final_attempt_) {
    save();
    conclude_all();
    if (last_saved_ == run_.engine.steps_done()) return;
    if (final_attempt_ == kMostFinalAttempts) throw failure_->error;
    std::this_thread::sleep_for(std::chrono::seconds(back_off(final_attempt_)));
  }
}

}  // namespace lt::saver
