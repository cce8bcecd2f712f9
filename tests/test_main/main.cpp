// The main() of all test programs. Under mpirun every rank runs the same tests in the same order. If one rank fails,
// all ranks fail; otherwise, if one rank is skipped, all are skipped. Ranks other than 0 print only their failures.
#define CATCH_CONFIG_RUNNER
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/world.h"

namespace {

const lt::World* the_world = nullptr;
std::optional<lt::Group> the_ranks;
bool has_skipped = false;

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

namespace lt_test {

const lt::World& world() { return *the_world; }
const lt::Group& ranks() { return *the_ranks; }

void skip(const std::string& why) {
  has_skipped = true;
  if (world().rank() == 0) std::cout << "skipped: " << why << std::endl;
}

lt::Device test_device() {
  const char* const asked = std::getenv("LT_TEST_DEVICE");
  if (asked == nullptr || std::string(asked) != "cuda") return lt::kCpu;
  return {lt::DeviceType::cuda, world().info().local_rank};
}

std::string why_not(lt::Device own) {
  std::string mine;
  try {
    lt::require_device(own);
  } catch (const lt::UsageError& error) {
    mine = error.what();
  }
  for (const std::string& why : world().group().all_gather_bytes(mine)) {
    if (!why.empty()) return why;
  }
  return {};
}

}  // namespace lt_test

int main(int argc, char** argv) {
  const lt::World world = lt::init(argc, argv);
  the_world = &world;
  const bool cuda = lt_test::test_device().type == lt::DeviceType::cuda;
  if (const std::string why = lt_test::why_not(lt_test::test_device()); !why.empty()) {
    lt_test::skip(why);
    return lt_test::kSkipped;
  }
  if (const char* const hosts = std::getenv("LT_TEST_HOSTS"); hosts != nullptr) {
    const std::string host = std::to_string(world.rank() * std::stoi(hosts) / world.size());
    ::setenv("NCCL_HOSTID", ("host" + host).c_str(), 1);
  }
  if (world.rank() == 0)
    std::cerr << "ranks: " << world.size() << ", LT_TEST_DEVICE: " << (cuda ? "cuda" : "cpu") << '\n';
  the_ranks = cuda ? world.group().with_nccl(lt_test::test_device()) : world.group();
  const std::string result = run_session(argc, argv, world) != 0 ? "failed" : has_skipped ? "skipped" : "passed";
  the_ranks.reset();  // before MPI ends
  const std::vector<std::string> results = world.group().all_gather_bytes(result);
  if (std::ranges::count(results, "failed") > 0) return 1;
  return std::ranges::count(results, "skipped") > 0 ? lt_test::kSkipped : 0;
}
