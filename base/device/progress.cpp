// Keeps progress in atomics, so that working threads and the watchdog never wait for each other.
#include "device/progress.h"

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "device/cuda.h"

namespace lt::device {
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
std::array<std::atomic<int>, kPhases> threads_in{};  // by phase; those in none do not count
std::atomic<std::int64_t> running_step{0};
std::atomic<double> slowest_step_s{0};
std::atomic<double> paused_s{0};  // since the process began
// The step that a thread runs. Its duration excludes time in patient phases and pauses of the process.
struct RunningStep {
  Phase phase = Phase::none;
  StepClock::time_point begin, patient_begin;
  double patient_s = 0, paused_before_s = 0;
  bool is_timed = false;
};
thread_local RunningStep running;

double seconds_between(StepClock::time_point begin, StepClock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

thread_local bool in_background = false;
std::atomic<int> waits_for_background{0};

// Counts the graph launches of a device: `word` is pinned memory that the stream writes and the host reads. The driver
// reclaims it when the process ends.
struct LaunchCount {
  std::once_flag made;
  std::shared_ptr<void> memory;
  std::atomic<std::uint32_t*> word{nullptr};
  std::atomic<std::uint32_t> launches{0};
};
std::array<LaunchCount, cuda::kMostDevices>& launch_counts() {
  static auto& counts = *new std::array<LaunchCount, cuda::kMostDevices>;
  return counts;
}

void count_thread(Phase phase, int change) {
  if (phase == Phase::none) return;
  threads_in[static_cast<std::size_t>(phase)].fetch_add(change, std::memory_order_relaxed);
}

Phase enter(Phase phase) {
  count_progress();
  const Phase previous = std::exchange(running.phase, phase);
  count_thread(phase, 1);
  count_thread(previous, -1);
  if (phase == Phase::start) running.is_timed = false;  // the next step is another run's
  const bool was_patient = patience(previous) > 1, is_patient = patience(phase) > 1;
  if (was_patient == is_patient) return previous;
  const auto now = StepClock::now();
  if (is_patient) running.patient_begin = now;
  if (was_patient) running.patient_s += seconds_between(running.patient_begin, now);
  return previous;
}

Phase most_patient_phase() {
  Phase found = Phase::none;
  for (const PhaseRow& row : kPhaseTable) {
    if (threads_in[static_cast<std::size_t>(row.phase)].load(std::memory_order_relaxed) == 0) continue;
    if (found == Phase::none || row.patience > patience(found)) found = row.phase;
  }
  return found;
}

}  // namespace

std::string_view to_string(Phase phase) { return row_of(phase).name; }
double patience(Phase phase) { return row_of(phase).patience; }

bool is_in_background() { return in_background; }

void count_progress() {
  if (!in_background || waits_for_background > 0) progress_count.fetch_add(1, std::memory_order_relaxed);
}

void begin_step(std::int64_t step) {
  if (in_background) return;
  const auto now = StepClock::now();
  if (running.is_timed) {
    const double paused = paused_s - running.paused_before_s;
    const double seconds = seconds_between(running.begin, now) - running.patient_s - paused;
    double slowest = slowest_step_s;
    while (seconds > slowest && !slowest_step_s.compare_exchange_weak(slowest, seconds)) {
    }
  }
  running.begin = now, running.patient_s = 0, running.paused_before_s = paused_s, running.is_timed = true;
  running_step.store(step, std::memory_order_relaxed);
  count_progress();
}

void count_pause(double seconds) { paused_s += seconds; }

void count_launch(const Stream& stream) {
  if (stream.device().type != DeviceType::cuda) return;
  const int index = stream.device().index;
  LaunchCount& count = launch_counts()[static_cast<std::size_t>(index)];
  std::call_once(count.made, [&] {
    count.memory = cuda::allocate_pinned(index, sizeof(std::uint32_t));
    *static_cast<std::uint32_t*>(count.memory.get()) = 0;
    count.word = static_cast<std::uint32_t*>(count.memory.get());
  });
  cuda::write_word(count.word, ++count.launches, stream.cuda());
}

Progress read_progress() {
  Progress progress{progress_count, most_patient_phase(), running_step, slowest_step_s};
  for (const LaunchCount& count : launch_counts()) {
    if (const volatile std::uint32_t* word = count.word) progress.launches += *word;
  }
  progress.awaits_background = waits_for_background > 0;
  return progress;
}

}  // namespace lt::device

namespace lt {

PhaseScope::PhaseScope(Phase phase, Device device) : counts_(!device::in_background && !device.is_meta()) {
  previous_ = counts_ ? device::enter(phase) : phase;
}
PhaseScope::~PhaseScope() {
  if (counts_) device::enter(previous_);
}

BackgroundScope::BackgroundScope() : previous_(device::in_background) { device::in_background = true; }
BackgroundScope::~BackgroundScope() { device::in_background = previous_; }

AwaitBackgroundScope::AwaitBackgroundScope() { ++device::waits_for_background; }
AwaitBackgroundScope::~AwaitBackgroundScope() { --device::waits_for_background; }

}  // namespace lt
