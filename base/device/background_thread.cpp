// The job queue, and how the thread ends.
#include "device/background_thread.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "libtrain/device/phase.h"

namespace lt::device {
namespace {

constexpr std::chrono::seconds kLeaveDeadline{10};

}  // namespace

struct BackgroundThread::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> waiting;
  bool closed = false;  // no more will be added
  bool left = false;    // the thread has ended
};

BackgroundThread::BackgroundThread() : queue_(std::make_shared<Queue>()), thread_([queue = queue_] { work(queue); }) {}

BackgroundThread::~BackgroundThread() {
  std::unique_lock lock(queue_->mutex);
  queue_->closed = true;
  const bool unwinding = std::uncaught_exceptions() > 0;
  if (unwinding) queue_->waiting.clear();
  queue_->changed.notify_all();
  const bool has_left = !unwinding || queue_->changed.wait_for(lock, kLeaveDeadline, [&] { return queue_->left; });
  lock.unlock();
  has_left ? thread_.join() : thread_.detach();
}

void BackgroundThread::add(Job job) {
  const std::lock_guard lock(queue_->mutex);
  queue_->waiting.push_back(std::move(job));
  queue_->changed.notify_all();
}

void BackgroundThread::work(const std::shared_ptr<Queue>& queue) {
  const BackgroundScope background;
  std::unique_lock lock(queue->mutex);
  while (true) {
    queue->changed.wait(lock, [&] { return queue->closed || !queue->waiting.empty(); });
    if (queue->waiting.empty()) break;
    {
      const Job job = std::move(queue->waiting.front());
      queue->waiting.pop_front();
      lock.unlock();
      job();
    }  // destroys the job before the lock is taken again
    lock.lock();
  }
  queue->left = true;
  queue->changed.notify_all();
}

}  // namespace lt::device
