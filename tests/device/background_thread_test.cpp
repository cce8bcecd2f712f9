// Background jobs: the thread that adds them never waits for one.
#include "device/background_thread.h"

#include <chrono>
#include <future>
#include <memory>

#include "test_main/catch.h"

using namespace lt;
using namespace lt::device;

TEST_CASE("background thread: jobs run in turn, and all of them before its end", "[device]") {
  int done = 0;
  {
    BackgroundThread thread;
    for (int i = 0; i < 3; ++i) {
      thread.add([&done, i] {
        if (done == i) ++done;
      });
    }
  }
  CHECK(done == 3);
}

TEST_CASE("background thread: adding does not wait while a job that has run lets go what it holds", "[device]") {
  std::promise<void> letting_go, may_go;
  BackgroundThread thread;
  const auto slow = [&](int*) { letting_go.set_value(), may_go.get_future().wait(); };
  thread.add([held = std::shared_ptr<int>(nullptr, slow)] {});
  letting_go.get_future().wait();
  const std::future<void> added = std::async(std::launch::async, [&] { thread.add([] {}); });
  CHECK(added.wait_for(std::chrono::seconds(5)) == std::future_status::ready);
  may_go.set_value();
}
