// Progress as the watchdog reads it: the events that move the counter, the steps that are timed, and the words that a
// device writes.
#include "device/progress.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "device/cuda.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::device;

TEST_CASE("progress: phases nest, and on meta or in the background there are none", "[device]") {
  const Progress before = read_progress();
  {
    const PhaseScope step(Phase::step);
    const PhaseScope forward(Phase::forward);
    CHECK(read_progress().phase == Phase::forward);
    CHECK(read_progress().count > before.count);
    const std::uint64_t count = read_progress().count;
    {
      const PhaseScope twin(Phase::backward, kMeta);
      CHECK(read_progress().phase == Phase::forward);
      const BackgroundScope background;
      const PhaseScope save(Phase::save);
      count_progress();
      begin_step(77);
      CHECK(read_progress().phase == Phase::forward);
    }
    CHECK(read_progress().count == count);
  }
  CHECK(read_progress().phase == before.phase);
}

TEST_CASE("progress: of the phases of several threads the most patient one counts", "[device]") {
  const Phase before = read_progress().phase;
  {
    const PhaseScope evaluation(Phase::evaluation);
    std::thread([] {
      const PhaseScope step(Phase::step);
      CHECK(read_progress().phase == Phase::evaluation);
    }).join();
    CHECK(read_progress().phase == Phase::evaluation);
  }
  {
    const PhaseScope step(Phase::step);
    std::thread([] {
      const PhaseScope save(Phase::save);
      CHECK(read_progress().phase == Phase::save);
    }).join();
    CHECK(read_progress().phase == Phase::step);
  }
  CHECK(read_progress().phase == before);
}

TEST_CASE("progress: the slowest step is that from one begin to the next, without long work in between", "[device]") {
  constexpr auto kTime = std::chrono::milliseconds(200);
  constexpr double kRounding = 1e-6;
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const auto do_for = [&](Phase phase, std::chrono::milliseconds time) {
    const PhaseScope scope(phase);
    const auto begin = Clock::now();
    std::this_thread::sleep_for(time);
    return seconds_since(begin);  // more than `time` on a busy machine
  };
  auto begun = Clock::now();  // before the running step
  double most_s = 0;          // by the clock around the steps, without what they exclude
  const auto next_step = [&](std::int64_t step, double excluded_s) {
    const auto now = Clock::now();
    begin_step(step);
    most_s = std::max(most_s, seconds_since(begun) - excluded_s + kRounding);
    begun = now;
  };
  begin_step(1);
  next_step(2, do_for(Phase::save, kTime));
  CHECK(read_progress().slowest_step_s <= most_s);
  // A step counts even if a save follows it, as with an in-memory copy after every step.
  double forward_s = do_for(Phase::forward, kTime / 4);
  std::thread([] { begin_step(1); }).join();  // another thread's steps are timed separately
  forward_s += do_for(Phase::forward, kTime / 4);
  next_step(3, do_for(Phase::save, kTime));
  CHECK(read_progress().slowest_step_s >= forward_s - kRounding);
  CHECK(read_progress().slowest_step_s <= most_s);
  CHECK(read_progress().step == 3);
  // A pause of the process does not count, nor does the time between two runs.
  const double paused_s = do_for(Phase::forward, 2 * kTime);
  count_pause(paused_s);
  next_step(4, paused_s);
  do_for(Phase::forward, 2 * kTime);
  do_for(Phase::start, kTime);
  begin_step(1);
  CHECK(read_progress().slowest_step_s <= most_s);
}

TEST_CASE("write_word: a stream counts, and so does a graph each time it runs", "[device]") {
  if (device::cuda::count() == 0) return;
  const Stream stream = Stream::compute({DeviceType::cuda, 0});
  const auto memory = device::cuda::allocate_pinned(0, 2 * sizeof(std::uint32_t));
  auto* const words = static_cast<std::uint32_t*>(memory.get());
  const auto read = [&](int i) { return static_cast<const volatile std::uint32_t*>(words)[i]; };
  words[0] = words[1] = 0;
  REQUIRE(device::cuda::write_word(words, 7, stream.cuda()));
  stream.synchronize();
  CHECK(read(0) == 7);
  const auto graph = device::cuda::capture(stream.cuda(), [&] {
    device::cuda::write_word(words, 8, stream.cuda());
    device::cuda::sleep(stream.cuda(), std::chrono::milliseconds(100));
    device::cuda::write_word(words + 1, 8, stream.cuda());
  });
  CHECK(read(0) == 7);
  for (std::uint32_t launch = 1; launch <= 2; ++launch) {
    words[0] = words[1] = 0;
    const std::uint32_t before = read_progress().launches;
    count_launch(stream);
    device::cuda::launch(graph.get(), stream.cuda());
    while (read(0) != 8) {
    }
    CHECK(read(1) == 0);  // the graph sleeps between the two writes
    CHECK(read_progress().launches == before + 1);
    stream.synchronize();
    CHECK(read(1) == 8);
  }
}
