// How the host waits for a device: it polls, and every few milliseconds runs the checks of code that may know that a
// peer has failed and the wait would never end. A short wait runs none. A background thread polls once a millisecond,
// since each query takes the driver from the thread that feeds the device.
#pragma once

#include <functional>

namespace lt {

// During its lifetime, long waits of its thread call `check`, which throws if the wait is in vain. It must be destroyed
// on the same thread, and not by a check.
class WaitCheck {
 public:
  explicit WaitCheck(std::function<void()> check);
  ~WaitCheck();
  WaitCheck(const WaitCheck&) = delete;
  WaitCheck& operator=(const WaitCheck&) = delete;

 private:
  friend void wait_until(const std::function<bool()>& ready);

  std::function<void()> check_;
  WaitCheck* older_;
};

// Returns once ready() is true. Throws what ready() or a check throws. The newest check runs first.
void wait_until(const std::function<bool()>& ready);

}  // namespace lt
