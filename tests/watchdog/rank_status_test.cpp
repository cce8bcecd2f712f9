// How a rank status includes background threads, and the content of the last rank status of a rank that ends.
#include "watchdog/rank_status.h"

#include <memory>
#include <vector>

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

// A device whose queue is full: the host waits in its next call, and the device in an earlier one. The test writes to
// plain memory in place of the device.
TEST_CASE("status: a device that makes no progress through a full queue makes its rank stand still", "[watchdog]") {
  comm::CallLog log({0, 2, 0, 2, "gather", 1, true, 61});
  const auto words = std::make_shared<comm::DeviceWords>();
  log.watch(words);
  for (const char* const name : {"a", "b", "c", "d"}) {
    log.end(log.begin(CollectiveOp::all_gather, name, 4, 8, true));
  }
  words->begun = 2, words->ended = 1;
  watchdog::StatusReader reader;
  CHECK(reader.read(1, false).still_s == 0);  // the calls were made just now
  const auto status_of = [&](double seconds) {
    watchdog::RankStatus status = reader.read(seconds, false);
    std::erase_if(status.groups, [](const watchdog::GroupStatus& group) { return group.id != 61; });
    return status;
  };
  for (const double seconds : {5.0, 10.0}) {
    const watchdog::RankStatus status = status_of(5);
    CHECK(status.still_s == seconds);
    REQUIRE(status.groups.size() == 1);
    CHECK(status.groups[0].begun == 2);  // and not 4, where the host is
    const watchdog::Call& last = status.groups[0].calls.back();
    CHECK(last.name == "b");
    CHECK(!last.ended);
  }
  words->ended = 2;
  CHECK(status_of(5).still_s == 0);
  CHECK(status_of(5).still_s == 5);
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
