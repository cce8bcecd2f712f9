// A background thread that runs jobs in order while the thread that adds them does other work.
#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace lt::device {

class BackgroundThread {
 public:
  // A job must not throw. The thread may outlive this object, so a job must own or share everything that it uses.
  using Job = std::function<void()>;

  BackgroundThread();
  // Waits for all jobs. During stack unwinding it drops the queued ones and waits at most ten seconds for the running
  // one, because a dead peer can block that job.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  void add(Job job);

 private:
  struct Queue;
  static void work(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> queue_;  // shared with the thread, which may outlive this object
  std::thread thread_;
};

}  // namespace lt::device
