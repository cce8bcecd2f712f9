// Bounds how long a process waits for other ranks, the launcher, a disk, or the reader of its output.
#pragma once

#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

namespace lt::comm {

// Runs `body` on a new thread and waits for it, at most for `deadline`. Does nothing if no thread can be created.
inline void run_within(std::chrono::milliseconds deadline, std::function<void()> body) noexcept try {
  std::packaged_task<void()> task(std::move(body));
  const std::future<void> done = task.get_future();
  std::thread(std::move(task)).detach();
  done.wait_for(deadline);
} catch (const std::exception&) {
}

// Ends this process with `exit_code` after `deadline` if it still runs. Does nothing if no thread can be created.
inline void end_by_deadline(std::chrono::seconds deadline, int exit_code) try {
  std::thread([deadline, exit_code] {
    std::this_thread::sleep_for(deadline);
    std::_Exit(exit_code);
  }).detach();
} catch (const std::system_error&) {
}

}  // namespace lt::comm
