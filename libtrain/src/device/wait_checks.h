// How the host waits for a device: it polls, and every few milliseconds runs the checks of those who may know that the
// wait never ends, because a peer has failed. A wait that is over at once runs none. A thread in the background asks
// once a millisecond, since each question takes the driver from the thread that feeds the device.
#pragma once

#include <functional>

namespace lt {

// While it lives, long waits of the thread that made it call `check`, which throws where the wait is in vain. It is
// destroyed in that thread, and by no check.
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

// Returns when ready() has said so. Throws what it throws, and what a check throws; the newest check comes first.
void wait_until(const std::function<bool()>& ready);

}  // namespace lt
