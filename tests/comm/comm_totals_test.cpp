// Totals of collectives: if nobody takes them, they need bounded memory and lose no time. The tests count collectives
// by hand.
#include <memory>
#include <thread>
#include <vector>

#include "comm/collective_log.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::comm;

namespace {

constexpr std::size_t kMany = 20'000, kMostHeld = 4096;

TimePoint now() { return TimePoint::on(Stream::compute(kCpu)); }

CollectiveTimes times_of(CollectiveOp op) {
  const TimePoint begin = now(), awaited = now();
  return {op, begin, now(), awaited};
}

CollectiveOp op_of(std::size_t i) { return i % 3 == 0 ? CollectiveOp::broadcast : CollectiveOp::all_gather; }

const CommTotal& total_of(const std::vector<CommTotal>& totals, CollectiveOp op) {
  for (const CommTotal& total : totals) {
    if (total.op == op) return total;
  }
  FAIL("no total of " << to_string(op));
  return totals.front();
}

}  // namespace

TEST_CASE("totals: a program that never takes them holds a bounded number of times, and their sums to the bit",
          "[comm]") {
  take_comm_lap();
  CommLap all;
  for (std::size_t i = 0; i < kMany; ++i) {
    all.times.push_back(times_of(op_of(i)));
    count_collective(op_of(i), 8);
    count_times(all.times.back());
  }
  const CommLap lap = take_comm_lap();
  CHECK(lap.times.size() <= kMostHeld);
  const std::vector<CommTotal> kept = lap.totals(), expected = all.totals();
  CHECK(kept.size() == 2);
  for (const CommTotal& total : expected) {
    const CommTotal& found = total_of(kept, total.op);
    CHECK(found.busy_ms == total.busy_ms);
    CHECK(found.exposed_ms == total.exposed_ms);
    CHECK(found.busy_ms > 0);
    CHECK(found.bytes == 8 * found.calls);
  }
  CHECK(total_of(kept, CollectiveOp::all_gather).calls + total_of(kept, CollectiveOp::broadcast).calls == kMany);
  CHECK(take_comm_lap().totals().empty());
}

TEST_CASE("totals: those of a capture are apart and complete; a launch counts them again without growing", "[comm]") {
  take_comm_lap();
  count_collective(CollectiveOp::barrier, 0);
  const auto graph = std::make_shared<const CommLap>(comm_lap_of([] {
    for (std::size_t i = 0; i < kMany; ++i) {
      count_collective(CollectiveOp::all_gather, 8);
      count_times(times_of(CollectiveOp::all_gather));
    }
    std::thread([] { count_collective(CollectiveOp::broadcast, 8); }).join();  // another engine's
  }));
  CHECK(graph->counts.size() == 1);
  CHECK(graph->times.size() == kMany);  // kept unsummed: their times come with each launch
  for (int launch = 0; launch < 100; ++launch) repeat_comm_lap(graph);
  const CommLap lap = take_comm_lap();
  CHECK(lap.times.empty());
  CHECK(lap.launches.size() == 1);
  const std::vector<CommTotal> totals = lap.totals();
  CHECK(total_of(totals, CollectiveOp::barrier).calls == 1);
  CHECK(total_of(totals, CollectiveOp::broadcast).calls == 1);
  CHECK(total_of(totals, CollectiveOp::all_gather).calls == 100 * kMany);
  CHECK(total_of(totals, CollectiveOp::all_gather).bytes == 100 * 8 * kMany);
  const double once = graph->totals().at(0).busy_ms;
  CHECK(total_of(totals, CollectiveOp::all_gather).busy_ms == Approx(100 * once));
}

TEST_CASE("totals: of graphs that are gone the sums stay", "[comm]") {
  take_comm_lap();
  double expected = 0;
  for (int i = 0; i < 50; ++i) {
    const auto graph = std::make_shared<const CommLap>(comm_lap_of([] {
      count_collective(CollectiveOp::all_gather, 8);
      count_times(times_of(CollectiveOp::all_gather));
    }));
    expected += graph->totals().at(0).busy_ms;
    repeat_comm_lap(graph);
  }
  const CommLap lap = take_comm_lap();
  CHECK(lap.launches.size() <= 2);
  CHECK(lap.totals().at(0).calls == 50);
  CHECK(lap.totals().at(0).busy_ms == Approx(expected));
}

TEST_CASE("totals: what throws in a capture leaves those from before", "[comm]") {
  take_comm_lap();
  count_collective(CollectiveOp::barrier, 0);
  CHECK_THROWS_AS(comm_lap_of([] {
                    count_collective(CollectiveOp::broadcast, 8);
                    throw 1;
                  }),
                  int);
  const std::vector<CommTotal> totals = take_comm_lap().totals();
  CHECK(totals.size() == 1);
  CHECK(total_of(totals, CollectiveOp::barrier).calls == 1);
}

TEST_CASE("totals: collectives and waits of a thread in an UncountedScope are nobody's", "[comm]") {
  take_comm_lap();
  take_waiting_ms();
  {
    const UncountedScope uncounted;
    count_collective(CollectiveOp::barrier, 0);
    const WaitingScope waiting;
  }
  CHECK(take_comm_lap().totals().empty());
  CHECK(take_waiting_ms() == 0);
  { const WaitingScope waiting; }
  CHECK(take_waiting_ms() > 0);
}
