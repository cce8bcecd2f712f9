// A thread that does jobs one after the other, beside training.
#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace lt {

class BackgroundThread {
 public:
  // Catches what it may throw. The thread may be left behind, so a job holds all that it uses, by value or shared.
  using Job = std::function<void()>;

  BackgroundThread();
  // Waits for all jobs. During stack unwinding only for the one that runs, and not longer than ten seconds, since a
  // peer of it may be gone.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  void add(Job job);

 private:
  struct Queue;
  static void work(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> queue_;  // shared with a thread that was left behind
  std::thread thread_;
};

}  // namespace lt
