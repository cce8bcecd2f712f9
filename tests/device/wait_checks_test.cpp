// Checks that run during a wait: when, on which thread, and the effect of one that throws.
#include "device/wait_checks.h"

#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "libtrain/device/phase.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::device;

TEST_CASE("wait: what is ready at once is asked once, and runs no check", "[device]") {
  int asked = 0, checked = 0;
  const WaitCheck check([&] { ++checked; });
  wait_until([&] { return ++asked > 0; });
  CHECK(asked == 1);
  CHECK(checked == 0);
}

TEST_CASE("wait: a long one runs all checks that live, the newest first", "[device]") {
  std::vector<int> ran;
  const WaitCheck first([&] { ran.push_back(1); });
  {
    const WaitCheck gone([&] { ran.push_back(0); });
  }
  const WaitCheck second([&] { ran.push_back(2); });
  wait_until([&] { return ran.size() >= 4; });
  CHECK(ran == std::vector<int>{2, 1, 2, 1});
}

TEST_CASE("wait: checks come milliseconds apart", "[device]") {
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> times{Clock::now()};
  const WaitCheck check([&] { times.push_back(Clock::now()); });
  wait_until([&] { return times.size() == 4; });
  for (std::size_t i = 1; i < times.size(); ++i) CHECK(times[i] - times[i - 1] >= std::chrono::milliseconds(4));
}

TEST_CASE("wait: a thread in the background asks once a millisecond", "[device]") {
  using Clock = std::chrono::steady_clock;
  const BackgroundScope background;
  std::vector<Clock::time_point> times;
  wait_until([&] { return times.push_back(Clock::now()), times.size() == 6; });
  // The first two questions come back to back.
  for (std::size_t i = 2; i < times.size(); ++i) CHECK(times[i] - times[i - 1] >= std::chrono::milliseconds(1));
}

TEST_CASE("wait: a check that throws ends it, though it would never be ready", "[device]") {
  const WaitCheck check([] { throw std::runtime_error("a peer has failed"); });
  CHECK_THROWS_AS(wait_until([] { return false; }), std::runtime_error);
}

TEST_CASE("wait: a check may end on another thread", "[device]") {
  int checked = 0, last = 0;
  auto ended = std::make_unique<WaitCheck>([&] { ++checked; });
  const WaitCheck check([&] { ++last; });
  std::thread([&] { ended.reset(); }).join();
  wait_until([&] { return last == 2; });
  CHECK(checked == 0);
}

TEST_CASE("wait: a check belongs to its thread", "[device]") {
  int checked = 0;
  const WaitCheck check([&] { ++checked; });
  std::thread([] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    wait_until([&] { return std::chrono::steady_clock::now() > end; });
  }).join();
  CHECK(checked == 0);
}
