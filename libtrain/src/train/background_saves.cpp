// The thread that saves, and the queue between it and training.
#include "train/background_saves.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "core/fault.h"
#include "libtrain/progress.h"
#include "train/seconds.h"

namespace lt {
namespace {

constexpr std::chrono::seconds kLeaveDeadline{10};

}  // namespace

struct BackgroundSaves::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  struct Entry {
    Size step;
    double stall_seconds;
    Job job;
    std::chrono::steady_clock::time_point begin;
  };
  std::deque<Entry> waiting;
  std::deque<SaveOutcome> done;
  bool closed = false;  // no more will be added
  bool left = false;    // the thread has ended
};

BackgroundSaves::BackgroundSaves() : queue_(std::make_shared<Queue>()), thread_([queue = queue_] { work(queue); }) {}

BackgroundSaves::~BackgroundSaves() {
  std::unique_lock lock(queue_->mutex);
  queue_->closed = true;
  const bool unwinding = std::uncaught_exceptions() > 0;
  if (unwinding) queue_->waiting.clear();
  queue_->changed.notify_all();
  const bool has_left = !unwinding || queue_->changed.wait_for(lock, kLeaveDeadline, [&] { return queue_->left; });
  lock.unlock();
  has_left ? thread_.join() : thread_.detach();
}

void BackgroundSaves::work(const std::shared_ptr<Queue>& queue) {
  std::unique_lock lock(queue->mutex);
  while (true) {
    queue->changed.wait(lock, [&] { return queue->closed || !queue->waiting.empty(); });
    if (queue->waiting.empty()) break;
    const Queue::Entry entry = std::move(queue->waiting.front());
    queue->waiting.pop_front();
    lock.unlock();
    const BackgroundScope background;
    SaveOutcome outcome{entry.step, {}, {}, 0, entry.stall_seconds};
    set_fault_step(entry.step);
    try {
      outcome.path = entry.job();
    } catch (const Error& error) {
      outcome.error = error;
    } catch (const std::exception& error) {
      outcome.error = InternalError("checkpoint", error.what());
    }
    outcome.seconds = entry.stall_seconds + seconds_since(entry.begin);
    lock.lock();
    queue->done.push_back(std::move(outcome));
    queue->changed.notify_all();
  }
  queue->left = true;
  queue->changed.notify_all();
}

void BackgroundSaves::add(Size step, double stall_seconds, Job job) {
  const std::lock_guard lock(queue_->mutex);
  queue_->waiting.push_back({step, stall_seconds, std::move(job), std::chrono::steady_clock::now()});
  ++outstanding_;
  queue_->changed.notify_all();
}

int BackgroundSaves::finished() const {
  const std::lock_guard lock(queue_->mutex);
  return static_cast<int>(queue_->done.size());
}

SaveOutcome BackgroundSaves::take() {
  std::unique_lock lock(queue_->mutex);
  queue_->changed.wait(lock, [&] { return !queue_->done.empty(); });
  SaveOutcome outcome = std::move(queue_->done.front());
  queue_->done.pop_front();
  --outstanding_;
  return outcome;
}

}  // namespace lt
