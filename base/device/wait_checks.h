// How the host waits for a device: it polls. Every few milliseconds it also runs checks, which throw if a peer has
// failed and the wait would never end. A short wait runs no checks. A background thread polls only once a millisecond,
// because each query blocks the driver for the thread that feeds the device.
#pragma once

#include <cstdint>
#include <functional>

namespace lt::device {

// During its lifetime, long waits of the creating thread call `check`. `check` must throw if the wait cannot end, and
// must not wait for a device itself. The object may be destroyed on any thread, but not inside a check.
class WaitCheck {
 public:
  explicit WaitCheck(std::function<void()> check);
  ~WaitCheck();
  WaitCheck(const WaitCheck&) = delete;
  WaitCheck& operator=(const WaitCheck&) = delete;

 private:
  friend void wait_until(const std::function<bool()>& ready);

  std::function<void()> check_;
  std::uint64_t thread_;  // the creating thread's number
  WaitCheck* older_;
};

// Returns once ready() is true. Exceptions from ready() and from the checks pass through. The newest check runs first.
void wait_until(const std::function<bool()>& ready);

}  // namespace lt::device
