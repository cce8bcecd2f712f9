// Trains a run from its first step to its last checkpoint.
#include "run/training_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoints/format/manifest.h"
#include "comm/current_error.h"
#include "comm/value_exchange.h"
#include "config/origin.h"
#include "device/fault.h"
#include "device/seconds.h"
#include "io/lines.h"
#include "libtrain/config/resolved.h"
#include "libtrain/device/context.h"
#include "libtrain/device/phase.h"
#include "libtrain/error.h"
#include "libtrain/watchdog/watchdog.h"
#include "profile/activity_clock.h"
#include "record/record.h"
#include "record/short_text.h"
#include "run/complete_record.h"
#include "run/due_work.h"
#include "run/restart.h"
#include "run/run.h"
#include "run/run_files.h"
#include "run/run_signals.h"
#include "run/saved_run.h"
#include "run/step_record.h"
#include "run/trace.h"
#include "run/training_data.h"
#include "save/memory_checkpoints.h"

namespace lt::run {
namespace {

using Clock = std::chrono::steady_clock;

class TrainingLoop {
 public:
  TrainingLoop(Run& run, RestartRecord& restart, const TrainingParts& parts)
      : run_(run),
        state_(parts.state),
        saver_(saved_run(run, parts.state)),
        restart_(restart),
        on_step_(parts.on_step) {}

  ExitCode train() {
    const PhaseScope steps(Phase::step);
    const End end = run_steps();
    const PhaseScope records(Phase::records);
    trace_.stop();
    saver_.finish();  // before the trace, so that the state is safe if the trace fails
    saver_.drop_memory();
    trace_.finish();
    const double seconds = device::seconds_since(begin_);
    run_.log.event({{"event", "end"}, {"step", steps_done()}, {"reason", reason(end)}, {"seconds", seconds}});
    run_.log.say(fmt::format("{}: {} in {}, {}", in_words(end), recorder::counted(steps_done(), "step"),
                             recorder::short_duration(seconds), run_.resolved.run.dir));
    return end == End::signal || end == End::time ? ExitCode::restart : ExitCode::ok;
  }

 private:
  // Why the run ends.
  enum class End { steps, time, signal, program };
  std::string signal_name() const { return name_of_signal(stop_signal_); }
  // As the supervisor and the report read it.
  std::string reason(End end) const {
    switch (end) {
      case End::steps: return "steps";
      case End::time: return "max_minutes";
      case End::program: return "program";
      case End::signal: break;
    }
    return "signal " + signal_name();
  }
  std::string in_words(End end) const {
    switch (end) {
      case End::steps: return "done";
      case End::time:
        return fmt::format("stopped by the limit of train.max_minutes, and the same command{} continues",
                           run_.resolved.resume == Resume::automatic ? "" : " with checkpoint.resume=auto");
      case End::program: return "stopped by the program";
      case End::signal: break;
    }
    return "stopped by " + signal_name();
  }

  End run_steps() {
    const Size steps = run_.resolved.steps();
    const profile::ActivityClockScope clock(&clock_);
    const ContextMemberScope<&Context::notices> notices(&notices_);
    device::set_fault_step(steps_done());
    device::fault_point("start");
    may_stop_ = is_true_on_any_rank(on_step_.may_stop());
    due_.remove_later_samples();
    look_for_signal();
    if (!is_stopped()) due_.catch_up();
    if (saver_.has_missed()) saver_.save();
    saver_.begin_memory_copies();
    look_for_signal();
    if (is_stopped()) return End::signal;
    leave_out_of_step_time();
    while (steps_done() < steps) {
      step();
      const Size n = steps_done();
      const bool evaluates = due_.evaluates_after(n), samples = due_.samples_after(n);
      const bool saves = saver_.is_due(n) && n < steps;
      // The device works on this step while the host prepares the next one.
      const bool is_ahead =
          run_.device().type == DeviceType::cuda && !needs_result(n) && !(saves && saver_.save_needs_record());
      if (is_ahead) {
        saver_.start_copies(saves);
      } else {
        finish_issued();
      }
      if (is_stopped()) return end_early();
      if (evaluates) due_.evaluate();
      conclude_step();
      if (is_stopped()) return end_early();
      if (samples) due_.sample();
      if (evaluates || samples) leave_out_of_step_time();
      if (n < steps && out_of_time()) {
        finish_issued();
        return End::time;
      }
      // Comes before copies and saves, because their time belongs to the next step.
      if (n < steps && trace_.before_step(n + 1)) leave_out_of_step_time();
      if (!is_ahead) saver_.start_copies(saves);
      saver_.conclude_finished();
      if (saves) saver_.save();
      // A step's row also reports stop signals. But evaluations, samples and saves may take longer than a step, so look
      // for a signal before the next step.
      if (evaluates || samples || saves) look_for_signal();
      if (is_stopped()) return end_early();
    }
    return End::steps;
  }

  // Returns why the run is stopped.
  End end_early() {
    finish_issued();
    conclude_step();
    return stop_signal_ != 0 ? End::signal : End::program;
  }

  bool is_true_on_any_rank(bool here) const {
    const std::vector<int> everywhere = comm::gather_values(run_.control, here ? 1 : 0);
    return std::ranges::count(everywhere, 1) > 0;
  }

  void look_for_signal() {
    if (steps_done() < run_.resolved.steps()) stop_signal_ = agree_on_stop(run_.control);
  }

  // A signal, or the program's wish, is ignored after the last step or when the time is over, because the run ends
  // anyway.
  bool is_stopped() const {
    const bool is_asked = stop_signal_ != 0 || is_stopped_by_program_;
    return is_asked && steps_done() < run_.resolved.steps() && !out_of_time();
  }

  // Whether anything right after step n needs its result.
  bool needs_result(Size n) const {
    return n == first_step_ || n == run_.resolved.steps() || due_.evaluates_after(n) || due_.samples_after(n);
  }

  Size steps_done() const { return run_.steps_done(); }

  void step() {
    device::set_fault_step(steps_done() + 1);
    device::fault_point("step");
    const double lr = run_.resolved.learning_rate(steps_done() + 1);
    run_.engine->set_learning_rate(lr);
    const StepResult result = run_.engine->step(next_batch());
    run_.eval_loss.reset();  // it belongs to the previous weights
    const IssuedStep issued = issued_step(run_, result, lr, clock_);
    finish_issued();
    issued_ = issued;
    if (trace_.after_step(steps_done())) leave_out_of_step_time();
  }

  // Records the step that was issued last, unless it is recorded already.
  void finish_issued() {
    if (!issued_) return;
    const auto [record, stop_signal] = finish_step(run_, *issued_);
    stop_signal_ = stop_signal;
    const bool has_targets = issued_->result.counted_share() > 0;
    issued_.reset();
    run_.log.step(record);
    restart_.step_done();
    // The first step also rehearses its allocations and warms up caches, so it counts only for its own line.
    const double step_s = record.step_ms / 1e3;
    mean_step_s_ = record.step <= first_step_ + 1 ? step_s : 0.9 * mean_step_s_ + 0.1 * step_s;
    if (record.step == first_step_) say_notices();
    if (record.step == first_step_ || is_due(run_.resolved.record.every, record.step) || record.step == record.steps) {
      run_.log.say(recorder::console_line(record, eta_s()));
    }
    const bool is_finite = std::isfinite(record.loss) && std::isfinite(record.grad_norm);
    if (is_finite) {
      non_finite_in_a_row_ = 0;
    } else if (record.loss_scale > 1) {
      note_skipped_for_scale(record);
    } else {
      skip_non_finite(record);
    }
    if (!has_targets) note_skipped_without_targets(record);
    unconcluded_ = record;
    if (!due_.evaluates_after(record.step)) conclude_step();
  }

  // Tells the program of the step that was recorded last, if it does not know yet. After that the program's state is
  // that of the step, so copies of it are valid. If the step has an evaluation, it comes before.
  void conclude_step() {
    if (!unconcluded_) return;
    const recorder::StepRecord record = *std::exchange(unconcluded_, std::nullopt);
    tell_program(record);
    saver_.recorded(record.step);
  }

  void tell_program(const recorder::StepRecord& record) {
    const bool goes_on = !on_step_ || on_step_({.step = record.step,
                                                .steps = record.steps,
                                                .loss = record.loss,
                                                .grad_norm = record.grad_norm,
                                                .lr = record.lr,
                                                .tokens_per_s = record.tokens_per_s,
                                                .eval_loss = run_.eval_loss});
    if (may_stop_ && is_true_on_any_rank(!goes_on)) is_stopped_by_program_ = true;
    checkpoint::require_valid(state_);
  }

  // Logs which kernels took a slower path in the first step, and adds the notices to env.json.
  void say_notices() {
    if (notices_.empty() || run_.control.rank() > 0) return;
    for (const std::string& notice : notices_) run_.log.say("warning: " + notice);
    add_notices(run_.resolved.run.dir, notices_);
  }

  void note_skipped(const recorder::StepRecord& record, const std::string& reason) {
    run_.log.event({{"event", "skip"},
                    {"step", record.step},
                    {"reason", reason},
                    {"loss_scale", std::max(record.loss_scale, 1.0f)}});
  }

  // Counts a step whose loss or norm is not finite and has no loss scale above 1, which could be the cause. Ends the
  // run at one more in a row than train.skip_nonfinite.
  void skip_non_finite(const recorder::StepRecord& record) {
    ++non_finite_in_a_row_, ++non_finite_;
    const Size allowed = run_.resolved.skip_nonfinite;
    if (non_finite_in_a_row_ > allowed) {
      tell_program(record);
      stop_at_non_finite(record);
    }
    const std::string reason = std::isfinite(record.loss) ? "gradient norm not finite" : "loss not finite";
    run_.log.event({{"event", "skip"},
                    {"step", record.step},
                    {"reason", reason},
                    {"loss_scale", 1},
                    {"in_a_row", non_finite_in_a_row_},
                    {"since_start", non_finite_}});
    run_.log.say(
        fmt::format("step {:>5}: no update, {}; {} in a row (train.skip_nonfinite allows {}), {} since the start",
                    record.step, reason, non_finite_in_a_row_, allowed, non_finite_));
  }

  void note_skipped_for_scale(const recorder::StepRecord& record) {
    const std::string reason = std::isfinite(record.loss) ? "gradients beyond f16" : "loss not finite";
    note_skipped(record, reason);
    run_.log.say(fmt::format("step {:>5}: no update, {} at loss scale {:g}; it is halved", record.step, reason,
                             record.loss_scale));
  }

  // Such steps may be many, so the console has the first.
  void note_skipped_without_targets(const recorder::StepRecord& record) {
    note_skipped(record, recorder::kNoTargetCounts);
    if (std::exchange(said_without_targets_, true)) return;
    run_.log.say(
        fmt::format("step {:>5}: no update, because none of its targets counts; its loss of 0 means nothing. "
                    "metrics.jsonl has an event skip for each such step",
                    record.step));
  }

  Batch next_batch() {
    const profile::ActivityScope activity(Activity::data);
    const PhaseScope phase(Phase::data);
    device::fault_point("data");
    const MemoryScope owner(MemoryOwner::data);
    run_.data.batches->seek(run_.engine->samples_done());
    return run_.data.batches->next();
  }

  [[noreturn]] void stop_at_non_finite(const recorder::StepRecord& record) {
    run_.log.event({{"event", "skip"},
                    {"step", record.step},
                    {"reason", "non-finite loss or gradient"},
                    {"in_a_row", non_finite_in_a_row_},
                    {"since_start", non_finite_}});
    trace_.finish();
    saver_.give_up();
    saver_.drop_memory();
    std::string saved = "nothing was saved", hint = "a smaller optim.lr or more optim.warmup";
    if (const Size last = saver_.last_saved(); last >= 0) {
      saved = fmt::format("step {} was saved last", last);
      hint += fmt::format(", in a new run.dir with --checkpoint.resume={}", run_.resolved.checkpoint.dir);
    }
    hint += "; or --train.skip_nonfinite=N in this one, which leaves out up to N such updates in a row";
    const Size skipped = non_finite_in_a_row_ - 1;
    const std::string steps = skipped == 1 ? "step" : fmt::format("{} steps", skipped);
    const std::string before = skipped == 0
                                   ? ""
                                   : fmt::format("; the {} before had no update either (train.skip_nonfinite={})",
                                                 steps, run_.resolved.skip_nonfinite);
    NonFiniteError error(fmt::format("step {}: loss {}, gradient norm {}: expected finite numbers{}; {}", record.step,
                                     std::abs(record.loss), std::abs(record.grad_norm), before, saved),
                         hint);
    error.set_shared(0);
    throw error;
  }

  double eta_s() const {
    const double by_steps = static_cast<double>(run_.resolved.steps() - steps_done()) * mean_step_s_;
    const double limit_s = run_.resolved.max_minutes * 60;
    return limit_s <= 0 ? by_steps : std::min(by_steps, limit_s - device::seconds_since(begin_));
  }

  // The ranks' clocks differ; rank 0 decides.
  bool out_of_time() const {
    const double limit_s = run_.resolved.max_minutes * 60;
    return limit_s > 0 && comm::broadcast_value(run_.control, device::seconds_since(begin_) >= limit_s);
  }

  // Opening the run, evaluation, samples and a trace's begin and end do not count as step time.
  void leave_out_of_step_time() {
    clock_.lap();
    take_comm_lap();
    take_waiting_ms();
  }

  Run& run_;
  DueWork due_{run_};
  const State& state_;  // the program's own
  saver::Saver saver_;
  Trace trace_{run_};
  RestartRecord& restart_;
  const StepCallback& on_step_;                      // may be empty
  bool may_stop_ = false;                            // the program may stop the run, on any rank
  std::optional<recorder::StepRecord> unconcluded_;  // a recorded step that the program does not know of
  profile::ActivityClock clock_{run_.device()};
  std::vector<std::string> notices_;
  std::optional<IssuedStep> issued_;
  const Clock::time_point begin_ = Clock::now();
  const Size first_step_ = run_.steps_done() + 1;
  double mean_step_s_ = 0;
  int stop_signal_ = 0;                 // all ranks have agreed on it; 0: none
  bool is_stopped_by_program_ = false;  // on_step_ returned false on some rank; equal on all ranks
  bool said_without_targets_ = false;
  Size non_finite_in_a_row_ = 0, non_finite_ = 0;  // steps without an update because loss or norm was not finite
};

// Throws UsageError if configurations differ. Ranks that run differently would wait for each other for ever.
void require_same_on_all_ranks(const Config& config, const Group& group) {
  const std::vector<std::string> all = group.all_gather_bytes(to_toml(config));
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    const auto lines = io::split_lines(all[0]), others = io::split_lines(all[r]);
    std::size_t i = 0;
    while (i + 1 < std::min(lines.size(), others.size()) && lines[i] == others[i]) ++i;
    throw UsageError(
        "config",
        fmt::format("rank {}: expected the configuration of rank 0, \"{}\", found \"{}\"", r, lines[i], others[i]),
        "options and LTRAIN_* variables must be the same on all hosts");
  }
}

// Throws UsageError if ranks of an elastic run on processors have different thread counts. A sample's bits depend on
// the threads of its rank, and another rank count gives the sample to another rank.
void require_same_threads(const Resolved& resolved, const World& world) {
  if (!is_elastic(resolved.config) || resolved.step.device.type != DeviceType::cpu) return;
  const std::vector<int> counts = comm::gather_values(world.group(), world.threads().count);
  for (std::size_t r = 1; r < counts.size(); ++r) {
    if (counts[r] == counts[0]) continue;
    throw UsageError("config",
                     fmt::format("threads a rank: expected the same on all ranks of an elastic run on processors, got "
                                 "{} on rank 0 and {} on rank {}",
                                 counts[0], counts[r], r),
                     "set OMP_NUM_THREADS to one number on all ranks");
  }
}

}  // namespace

ExitCode run_training(const Resolved& resolved, const World& world, const TrainingParts& parts) {
  std::optional<Restart> restart;
  collectively(world.group(), [&] {
    restart = restart_of_environment();
    device::arm_fault(world.rank());
  });
  collectively(world.group(), [&] {
    require_same_on_all_ranks(resolved.config, world.group());
    require_same_threads(resolved, world);
  });
  std::shared_ptr<void> folder;  // locked until the watchdog, which writes into it, has ended
  Watchdog watchdog(world, resolved.watchdog);
  const PhaseScope start(Phase::start);
  std::optional<Run> opened;
  config::name_keys(resolved.config, [&] { opened.emplace(resolved, world, parts.model, parts.batches); });
  Run& run = *opened;
  folder = run.folder.lock;
  if (!std::holds_alternative<Fresh>(run.from.start)) parts.state = state_of(run.from.start).program;
  watchdog.write_to(resolved.run.dir);
  // A launcher may end the others once a rank has left. Rank 0 alone retires checkpoints and writes the record.
  const auto leave_together = [&](ExitCode code) {
    run.control.barrier();
    return code;
  };
  if (std::holds_alternative<Complete>(run.from.start)) {
    run.log.say(fmt::format("complete: {} {} done in {}, train.steps is {}",
                            recorder::counted(run.steps_done(), "step"), run.steps_done() == 1 ? "is" : "are",
                            resolved.run.dir, run.resolved.steps()));
    complete_record(run);
    saver::remove_memory(run.control, run.folder.identity.id);
    if (world.rank() == 0) remove_leftovers_of(run.resolved, run.folder.identity);
    return leave_together(ExitCode::ok);
  }
  RestartRecord restarted(run, restart);
  announce(run);
  try {
    return leave_together(TrainingLoop(run, restarted, parts).train());
  } catch (...) {
    const Error error = comm::current_error();
    run.log.note(fmt::format("error: [{}] {}", error.component(), error.what()));
    throw;
  }
}

}  // namespace lt::run
