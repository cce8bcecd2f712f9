// Runs saves as background jobs and collects their outcomes.
#include "save/background_saves.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "device/fault.h"
#include "device/seconds.h"
#include "libtrain/device/phase.h"

namespace lt::saver {

struct BackgroundSaves::Done {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<SaveOutcome> outcomes;
};

BackgroundSaves::BackgroundSaves() : done_(std::make_shared<Done>()) {}

void BackgroundSaves::add(Size step, double stall_seconds, Job job) {
  ++outstanding_;
  thread_.add([done = done_, step, stall_seconds, job = std::move(job), begin = std::chrono::steady_clock::now()] {
    SaveOutcome outcome{step, {}, {}, 0, stall_seconds};
    device::set_fault_step(step);
    try {
      outcome.path = job();
    } catch (const Error& error) {
      outcome.error = error;
    } catch (const std::exception& error) {
      outcome.error = InternalError("checkpoint", error.what());
    }
    outcome.seconds = stall_seconds + device::seconds_since(begin);
    const std::lock_guard lock(done->mutex);
    done->outcomes.push_back(std::move(outcome));
    done->changed.notify_all();
  });
}

int BackgroundSaves::finished() const {
  const std::lock_guard lock(done_->mutex);
  return static_cast<int>(done_->outcomes.size());
}

SaveOutcome BackgroundSaves::take() {
  const AwaitBackgroundScope awaits;
  std::unique_lock lock(done_->mutex);
  done_->changed.wait(lock, [&] { return !done_->outcomes.empty(); });
  SaveOutcome outcome = std::move(done_->outcomes.front());
  done_->outcomes.pop_front();
  --outstanding_;
  return outcome;
}

}  // namespace lt::saver
