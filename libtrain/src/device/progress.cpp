// Keeps progress in atomics: working threads write it, the watchdog reads it, and neither waits for the other.
#include "device/progress.h"

#include <array>
#include <atomic>
#include <chrono>
#include <utility>

#include "device/cuda.h"

namespace lt {
namespace {

struct PhaseRow {
  Phase phase;
  std::string_view name;
  double patience;
};
constexpr std::array<PhaseRow, kPhases> kPhaseTable = {{
    {Phase::none, "no phase", 1},
    {Phase::start, "the start", 30},  // scans data, compiles kernels, starts NCCL
    {Phase::step, "a step", 1},
    {Phase::data, "data", 1},
    {Phase::forward, "forward", 1},
    {Phase::backward, "backward", 1},
    {Phase::update, "update", 1},
    {Phase::evaluation, "evaluation", 10},
    {Phase::sampling, "sampling", 10},  // only rank 0 generates
    {Phase::save, "a save", 10},        // only rank 0 commits
    {Phase::load, "loading", 10},
    {Phase::records, "records", 10},  // traces, files of the run
}};
const PhaseRow& row_of(Phase phase) { return kPhaseTable[static_cast<std::size_t>(phase)]; }
constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kPhaseTable.size(); ++i) {
    if (kPhaseTable[i].phase != static_cast<Phase>(i)) return false;
  }
  return true;
}
static_assert(is_in_order());

using StepClock = std::chrono::steady_clock;

std::atomic<std::uint64_t> progress_count{0};
std::atomic<Phase> current_phase{Phase::none};
std::atomic<std::int64_t> running_step{0};
std::atomic<double> slowest_step_s{0};
// The step that a thread runs. Its duration excludes time in patient phases.
struct RunningStep {
  Phase phase = Phase::none;
  StepClock::time_point begin, patient_begin;
  double patient_s = 0;
  bool is_timed = false;
};
thread_local RunningStep running;

double seconds_between(StepClock::time_point begin, StepClock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

thread_local bool in_background = false;
std::atomic<int> waits_for_background{0};

// A pinned word that streams write and the host reads. The driver reclaims it when the process ends.
std::atomic<std::uint32_t*> launch_word{nullptr};
std::atomic<std::uint32_t> launches{0};

Phase enter(Phase phase) {
  count_progress();
  const Phase previous = std::exchange(running.phase, phase);
  current_phase.store(phase, std::memory_order_relaxed);
  const bool was_patient = patience(previous) > 1, is_patient = patience(phase) > 1;
  if (was_patient == is_patient) return previous;
  const auto now = StepClock::now();
  if (is_patient) running.patient_begin = now;
  if (was_patient) running.patient_s += seconds_between(running.patient_begin, now);
  return previous;
}

}  // namespace

std::string_view to_string(Phase phase) { return row_of(phase).name; }
double patience(Phase phase) { return row_of(phase).patience; }

PhaseScope::PhaseScope(Phase phase, Device device) : counts_(!in_background && !device.is_meta()) {
  previous_ = counts_ ? enter(phase) : phase;
}
PhaseScope::~PhaseScope() {
  if (counts_) enter(previous_);
}

BackgroundScope::BackgroundScope() : previous_(in_background) { in_background = true; }
BackgroundScope::~BackgroundScope() { in_background = previous_; }
bool is_in_background() { return in_background; }

AwaitBackgroundScope::AwaitBackgroundScope() { ++waits_for_background; }
AwaitBackgroundScope::~AwaitBackgroundScope() { --waits_for_background; }

void count_progress() {
  if (!in_background || waits_for_background > 0) progress_count.fetch_add(1, std::memory_order_relaxed);
}

void begin_step(std::int64_t step) {
  if (in_background) return;
  const auto now = StepClock::now();
  if (running.is_timed) {
    const double seconds = seconds_between(running.begin, now) - running.patient_s;
    double slowest = slowest_step_s;
    while (seconds > slowest && !slowest_step_s.compare_exchange_weak(slowest, seconds)) {
    }
  }
  running.begin = now, running.patient_s = 0, running.is_timed = true;
  running_step.store(step, std::memory_order_relaxed);
  count_progress();
}

void count_launch(const Stream& stream) {
  if (stream.device().type != DeviceType::cuda) return;
  static const auto& memory = *new auto([&] {
    auto pinned = cuda::allocate_pinned(stream.device().index, sizeof(std::uint32_t));
    *static_cast<std::uint32_t*>(pinned.get()) = 0;
    launch_word = static_cast<std::uint32_t*>(pinned.get());
    return pinned;
  }());
  cuda::write_word(static_cast<std::uint32_t*>(memory.get()), ++launches, stream.cuda());
}

Progress read_progress() {
  Progress progress{progress_count, current_phase, running_step, slowest_step_s};
  if (const volatile std::uint32_t* word = launch_word) progress.launches = *word;
  progress.awaits_background = waits_for_background > 0;
  return progress;
}

}  // namespace lt
