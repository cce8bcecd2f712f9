// How a rank status includes background threads, and the content of the last rank status of a rank that ends.
#include "watchdog/rank_status.h"

#include "comm/call_log.h"
#include "device/progress.h"
#include "test_main/catch.h"

using namespace lt;

TEST_CASE("status: work in the background is the rank's progress while training waits for it", "[watchdog]") {
  comm::CallLog log({0, 2, 0, 2, "checkpoints"});
  const auto write = [] {
    const BackgroundScope background;
    device::count_progress();
  };
  watchdog::StatusReader reader;
  device::count_progress();
  CHECK(reader.read(1, false).still_s == 0);
  CHECK(reader.read(1, false).still_s == 1);
  {
    const BackgroundScope background;
    log.begin(CollectiveOp::exchange, "bytes of all", 0, 0);
  }
  write();
  watchdog::RankStatus status = reader.read(1, false);
  CHECK(status.still_s == 2);
  CHECK(status.groups.empty());
  const AwaitBackgroundScope awaits;
  status = reader.read(1, false);
  CHECK(status.still_s == 3);
  REQUIRE(status.groups.size() == 1);  // this rank waits for ranks that have not reached it
  CHECK(status.groups[0].calls.size() == 1);
  write();
  CHECK(reader.read(1, false).still_s == 0);
}

TEST_CASE("status: a leaver's last one counts the calls of all its groups, also of those that have ended",
          "[watchdog]") {
  const auto call = [](comm::CallLog& log) { log.end(log.begin(CollectiveOp::barrier, "barrier", 0, 0)); };
  comm::CallLog open({0, 2, 0, 2, "world", 1, true, 71});
  {
    comm::CallLog ended({0, 2, 0, 2, "gather", 1, true, 72});
    for (int i = 0; i < 20; ++i) call(ended);
    const comm::CallLog unused({0, 2, 0, 2, "reduce", 1, true, 73});
  }
  call(open);  // just now, so an ordinary status has no groups
  std::vector<std::pair<std::uint64_t, std::uint64_t>> counts;
  for (const watchdog::GroupStatus& group : watchdog::last_status().groups) {
    if (group.id > 70) counts.emplace_back(group.id, group.begun);
  }
  CHECK(counts == std::vector<std::pair<std::uint64_t, std::uint64_t>>{{71, 1}, {72, 20}});
}
