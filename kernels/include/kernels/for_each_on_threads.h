// Divides a loop among the threads of the calling thread's team.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>

#include "kernels/threads.h"

namespace lt::kernels {

// Calls body(i) for i in [0, count); each free thread takes the next i. If calls throw, throws the exception of the
// lowest i.
template <class Body>
void for_each_on_threads(std::size_t count, Body&& body) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::size_t failed = count;
  std::mutex mutex;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) failed = i, failure = std::current_exception();
        return;
      }
    }
  };
  if (count > 1) {
    on_each_thread(work);
  } else {
    work();
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace lt::kernels
