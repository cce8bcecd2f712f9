// Access to the folder of a run that another process uses.
#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include "comm/tcp_socket.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using namespace lt;
using lt_test::TempFolder;

TEST_CASE("run folder: one run at a time has it", "[train]") {
  const TempFolder temp;
  Config config;
  config.run.dir = temp / "";
  const Descriptor folder(::open(config.run.dir.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::flock(folder.get(), LOCK_EX) == 0);  // as another process would
  CHECK_THROWS_WITH(examine_run_folder(config, {}, std::chrono::milliseconds(0)),
                    "run.dir " + config.run.dir + ": expected a folder of its own, another run is at work in it");
}
