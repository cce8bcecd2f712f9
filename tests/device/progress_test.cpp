// Progress as the watchdog reads it: the events that move the counter, the steps that are timed, and the words that a
// device writes.
#include "device/progress.h"

#include <thread>

#include "device/cuda.h"
#include "test_main/catch.h"

using namespace lt;

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
  const auto do_for = [](Phase phase, std::chrono::milliseconds time) {
    const PhaseScope scope(phase);
    std::this_thread::sleep_for(time);
  };
  begin_step(1);
  do_for(Phase::save, kTime);
  begin_step(2);
  CHECK(read_progress().slowest_step_s < 0.1);
  // A step counts even if a save follows it, as with an in-memory copy after every step.
  do_for(Phase::forward, kTime / 4);
  std::thread([] { begin_step(1); }).join();  // another thread's steps are timed separately
  do_for(Phase::forward, kTime / 4);
  do_for(Phase::save, kTime);
  begin_step(3);
  CHECK(read_progress().slowest_step_s >= 0.1);
  CHECK(read_progress().slowest_step_s < 0.3);
  CHECK(read_progress().step == 3);
  // A pause of the process does not count, nor does the time between two runs.
  do_for(Phase::forward, 2 * kTime);
  count_pause(0.4);
  begin_step(4);
  do_for(Phase::forward, 2 * kTime);
  do_for(Phase::start, kTime);
  begin_step(1);
  CHECK(read_progress().slowest_step_s < 0.3);
}

TEST_CASE("write_word: a stream counts, and so does a graph each time it runs", "[device]") {
  if (cuda::count() == 0) return;
  const Stream stream = Stream::compute({DeviceType::cuda, 0});
  const auto memory = cuda::allocate_pinned(0, 2 * sizeof(std::uint32_t));
  auto* const words = static_cast<std::uint32_t*>(memory.get());
  const auto read = [&](int i) { return static_cast<const volatile std::uint32_t*>(words)[i]; };
  words[0] = words[1] = 0;
  REQUIRE(cuda::write_word(words, 7, stream.cuda()));
  stream.synchronize();
  CHECK(read(0) == 7);
  const auto graph = cuda::capture(stream.cuda(), [&] {
    cuda::write_word(words, 8, stream.cuda());
    cuda::sleep(stream.cuda(), std::chrono::milliseconds(100));
    cuda::write_word(words + 1, 8, stream.cuda());
  });
  CHECK(read(0) == 7);
  for (std::uint32_t launch = 1; launch <= 2; ++launch) {
    words[0] = words[1] = 0;
    const std::uint32_t before = read_progress().launches;
    count_launch(stream);
    cuda::launch(graph.get(), stream.cuda());
    while (read(0) != 8) {
    }
    CHECK(read(1) == 0);  // the graph sleeps between the two writes
    CHECK(read_progress().launches == before + 1);
    stream.synchronize();
    CHECK(read(1) == 8);
  }
}
