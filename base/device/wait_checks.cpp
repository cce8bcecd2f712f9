// The polling wait, and the list of all threads' checks.
#include "device/wait_checks.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "device/progress.h"

namespace lt::device {
namespace {

using WaitClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kEager{1}, kBetweenChecks{5};
constexpr std::chrono::microseconds kNap{50}, kBackgroundNap{1000};

// Both are trivially destructible, so usable until the process ends. A check also runs under the mutex, so that no
// other thread destroys it meanwhile.
std::mutex mutex;
WaitCheck* newest = nullptr;  // guarded by the mutex

// Unlike a thread's id, no later thread has it.
std::uint64_t number_of_thread() {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t own = ++last;
  return own;
}

}  // namespace

WaitCheck::WaitCheck(std::function<void()> check) : check_(std::move(check)), thread_(number_of_thread()) {
  const std::lock_guard lock(mutex);
  older_ = std::exchange(newest, this);
}

WaitCheck::~WaitCheck() {
  const std::lock_guard lock(mutex);
  WaitCheck** link = &newest;
  while (*link != this) link = &(*link)->older_;
  *link = older_;
}

void wait_until(const std::function<bool()>& ready) {
  if (ready()) return;
  const bool patient = is_in_background();
  const auto begin = WaitClock::now();
  auto next_check = begin + kBetweenChecks;
  while (!ready()) {
    const auto now = WaitClock::now();
    if (now >= next_check) {
      const std::lock_guard lock(mutex);
      for (const WaitCheck* check = newest; check != nullptr; check = check->older_) {
        if (check->thread_ == number_of_thread()) check->check_();
      }
      next_check = WaitClock::now() + kBetweenChecks;
    }
    if (!patient && now - begin < kEager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(patient ? kBackgroundNap : kNap);
    }
  }
}

}  // namespace lt::device
