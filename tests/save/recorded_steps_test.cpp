// Threads that wait until the row of a step is recorded.
#include "save/recorded_steps.h"

#include <future>

#include "test_main/catch.h"

using namespace lt;
using namespace lt::saver;

TEST_CASE("recorded steps: who waits for a step is told whether its row was written", "[train]") {
  RecordedSteps steps(4);
  CHECK(steps.wait_for(4));  // recorded by an earlier start
  const auto wait_for = [&](Size step) {
    return std::async(std::launch::async, [&, step] { return steps.wait_for(step); });
  };
  auto written = wait_for(6), never = wait_for(7);
  steps.add(5);
  CHECK(written.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  steps.add(6);
  CHECK(written.get());
  CHECK(never.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  steps.close();
  CHECK_FALSE(never.get());
  CHECK(steps.wait_for(6));
}
