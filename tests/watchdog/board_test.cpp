// How a rank's board treats background threads.
#include "watchdog/board.h"

#include "comm/call_log.h"
#include "device/progress.h"
#include "test_main/catch.h"

using namespace lt;

TEST_CASE("board: work in the background is the rank's progress while training waits for it", "[watchdog]") {
  CallLog log({0, 2, 0, 2, "checkpoints"});
  const auto write = [] {
    const BackgroundScope background;
    count_progress();
  };
  watchdog::BoardReader reader;
  count_progress();
  CHECK(reader.read(1, false).still_s == 0);
  CHECK(reader.read(1, false).still_s == 1);
  {
    const BackgroundScope background;
    log.begin(CollectiveOp::exchange, "bytes of all", 0, 0);
  }
  write();
  watchdog::Board board = reader.read(1, false);
  CHECK(board.still_s == 2);
  CHECK(board.groups.empty());
  const AwaitBackgroundScope awaits;
  board = reader.read(1, false);
  CHECK(board.still_s == 3);
  REQUIRE(board.groups.size() == 1);  // this rank waits for ranks that have not reached it
  CHECK(board.groups[0].calls.size() == 1);
  write();
  CHECK(reader.read(1, false).still_s == 0);
}
