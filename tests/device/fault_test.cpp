// Fault points: each triggers once, at its step and on its rank, and ends the process as its action says.
#include "device/fault.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>

#include "libtrain/error.h"
#include "test_main/armed_fault.h"
#include "test_main/catch.h"
#include "test_main/resource_limit.h"

using namespace lt;
using namespace lt::device;
using lt_test::ArmedFault;

namespace {

std::string refusal(const std::string& faults) {
  try {
    const ArmedFault armed(faults, 1);
  } catch (const UsageError& error) {
    ::unsetenv("LTRAIN_FAULT");
    arm_fault(1);
    return std::string(error.what()) + " | " + error.hint();
  }
  return "none";
}

// The wait status of a child that reaches the point `step` in step 3. A stopped child is continued.
int status_at_step(const std::string& action) {
  const ArmedFault armed("step:1:3:" + action, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    const lt_test::ResourceLimit no_core(RLIMIT_CORE, 0);
    std::signal(SIGSEGV, SIG_DFL);  // Catch2's handler would report a failed test
    set_fault_step(3);
    fault_point("step");
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  if (!WIFSTOPPED(status)) return status;
  int after = -1;
  ::kill(child, SIGCONT);
  REQUIRE(::waitpid(child, &after, 0) == child);
  CHECK((WIFEXITED(after) && WEXITSTATUS(after) == 0));
  return status;
}

}  // namespace

TEST_CASE("fault: a process ends as the action says", "[device]") {
  const int killed = status_at_step("kill"), violated = status_at_step("segv"), left = status_at_step("exit");
  CHECK((WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL));
  CHECK((WIFEXITED(left) && WEXITSTATUS(left) == 1));
#if !defined(__SANITIZE_ADDRESS__)  // its handler reports the fault and exits
  CHECK((WIFSIGNALED(violated) && WTERMSIG(violated) == SIGSEGV));
#endif
  CHECK(violated != 0);
  const int stopped = status_at_step("stop");
  CHECK((WIFSTOPPED(stopped) && WSTOPSIG(stopped) == SIGSTOP));
}

TEST_CASE("fault: strikes once, on its rank, at its step and point", "[device]") {
  const ArmedFault armed("forward:1:3:sleep=0,forward:0:2:kill,save-shard:1:3:enospc,load:1:3:eio,save-gc:1:4:eio", 1);
  fault_point("forward");
  set_fault_step(2);
  fault_point("forward");       // armed for rank 0
  CHECK(fault_in_this_step());  // on any rank
  set_fault_step(3);
  fault_point("data");
  CHECK(fault_hits() == 0);
  fault_point("forward");
  fault_point("forward");
  CHECK(fault_hits() == 1);
  CHECK_THROWS_WITH(fault_point("save-shard"), "cannot write: No space left on device");
  CHECK_NOTHROW(fault_point("save-shard"));
  CHECK_THROWS_AS(fault_point("load"), DataError);
  CHECK_NOTHROW(fault_point("save-gc"));
  set_fault_step(4);
  CHECK_THROWS_WITH(fault_point("save-gc"), "cannot write: Input/output error");
  CHECK(!fault_in_this_step());
}

TEST_CASE("fault: NaN is asked for by who computes", "[device]") {
  const ArmedFault armed("backward:1:3:nan", 1);
  set_fault_step(3);
  fault_point("backward");
  CHECK(!fault_makes_nan("forward"));
  CHECK(fault_makes_nan("backward"));
  CHECK(!fault_makes_nan("backward"));
}

TEST_CASE("fault: the allocation that is counted to fails", "[device]") {
  const ArmedFault armed("allocate:1:3:oom=2", 1);
  CHECK(!fault_fails_allocation());
  set_fault_step(3);
  CHECK(!fault_fails_allocation());
  CHECK(fault_fails_allocation());
  CHECK(!fault_fails_allocation());
}

TEST_CASE("fault: a sleep lasts as long as it says", "[device]") {
  const auto seconds = [](const std::string& fault) {
    const ArmedFault armed(fault, 1);
    const auto begin = std::chrono::steady_clock::now();
    fault.starts_with("data") ? fault_point("data") : fault_point("gather", Stream::compute(kCpu));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  CHECK(seconds("data:1:0:sleep") >= 0.05);
  CHECK(seconds("data:1:0:sleep=0.125") >= 0.125);
  CHECK(seconds("gather:1:0:device-sleep") >= 0.1);
  CHECK(seconds("gather:1:0:device-sleep=0.125") >= 0.125);
}

TEST_CASE("fault: what makes no sense is refused by name", "[device]") {
  CHECK(refusal("forward:1:2") ==
        "LTRAIN_FAULT: forward:1:2: expected <point>:<rank>:<step>:<action> | for example forward:1:6:kill");
  CHECK(refusal("forward:1:-2:kill").starts_with("LTRAIN_FAULT: forward:1:-2:kill: expected <point>"));
  CHECK(
      refusal("forwards:1:2:kill")
          .starts_with("LTRAIN_FAULT: forwards:1:2:kill: unknown point forwards | points: start, step, data, forward"));
  CHECK(refusal("load:1:2:die") ==
        "LTRAIN_FAULT: load:1:2:die: unknown action die | "
        "actions at load: kill, stop, segv, exit, sleep, eio");
  CHECK(refusal("step:1:2:kill,save-gc:1:2:nan") ==
        "LTRAIN_FAULT: save-gc:1:2:nan: nan makes no sense at save-gc | "
        "actions at save-gc: kill, stop, segv, exit, sleep, enospc, eio");
  CHECK(refusal("gather:1:2:kill").ends_with("kill makes no sense at gather | actions at gather: device-sleep"));
  for (const char* action : {"kill=1", "sleep=", "sleep=x", "sleep=-1", "sleep=1=1", "sleep=1=", "sleep=inf"}) {
    CHECK(
        refusal(std::string("step:1:2:") + action).ends_with("for example step:0:3:sleep=2.5, or allocate:0:3:oom=7"));
  }
}
