// The main() of all test programs. Under mpirun every rank runs the same tests in the same order; all fail where one
// does. Ranks other than 0 print only what failed on them.
#define CATCH_CONFIG_RUNNER
#include <iostream>
#include <sstream>
#include <string>

#include "test_main/catch.h"
#include "test_main/world.h"

namespace {

const lt::World* the_world = nullptr;

int run_session(int argc, char** argv, const lt::World& world) {
  Catch::Session session;
  session.configData().rngSeed = 1;  // the same generated values on all ranks
  if (const int usage = session.applyCommandLine(argc, argv); usage != 0) return usage;
  if (world.rank() == 0) return session.run();
  std::ostringstream output;
  std::streambuf* console = std::cout.rdbuf(output.rdbuf());
  const int failures = session.run();
  std::cout.rdbuf(console);
  if (failures != 0) std::cerr << "rank " << world.rank() << ":\n" << output.str();
  return failures;
}

}  // namespace

const lt::World& lt_test::world() { return *the_world; }

int main(int argc, char** argv) {
  const lt::World world = lt::init(argc, argv);
  the_world = &world;
  const int failures = run_session(argc, argv, world);
  bool failed = false;
  for (const std::string& count : world.group().all_gather_bytes(std::to_string(failures))) failed |= count != "0";
  return failed ? 1 : 0;
}
