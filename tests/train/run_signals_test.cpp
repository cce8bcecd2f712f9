// Signals during training: recorded, not acted upon, and returned to the program's own handlers.
#include "train/run_signals.h"

#include <sys/wait.h>
#include <unistd.h>

#include "test_main/catch.h"

using namespace lt;

namespace {

volatile std::sig_atomic_t own_calls = 0;
void own_handler(int) { own_calls = own_calls + 1; }

// Installs `handler` for `signal` for its lifetime.
struct Handler {
  Handler(int signal_, void (*handler)(int)) : signal(signal_), before(std::signal(signal_, handler)) {}
  ~Handler() { std::signal(signal, before); }
  int signal;
  void (*before)(int);
};

}  // namespace

TEST_CASE("run signals: the first request is noted, and the program's handlers come back", "[train]") {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    const Handler own(signal, own_handler);
    own_calls = 0;
    {
      const RunSignals signals;
      CHECK(RunSignals::noted() == 0);
      std::raise(signal);
      std::raise(signal == SIGTERM ? SIGUSR1 : SIGTERM);
      CHECK(RunSignals::noted() == signal);
      CHECK(agree_on_stop(Group()) == signal);
      CHECK(own_calls == 0);
    }
    CHECK(RunSignals::noted() == 0);
    std::raise(signal);
    CHECK(own_calls == 1);
  }
  CHECK(name_of_signal(SIGUSR1) == "SIGUSR1");
}

TEST_CASE("run signals: an interrupt that was ignored stays so, a broken pipe is ignored", "[train]") {
  const Handler ignored(SIGINT, SIG_IGN), pipe(SIGPIPE, own_handler);
  own_calls = 0;
  {
    const RunSignals signals;
    std::raise(SIGINT);
    std::raise(SIGPIPE);
    CHECK(RunSignals::noted() == 0);
    CHECK(own_calls == 0);
  }
  std::raise(SIGPIPE);
  CHECK(own_calls == 1);
}

TEST_CASE("run signals: a second interrupt ends the process", "[train]") {
  const pid_t child = ::fork();
  if (child == 0) {
    const RunSignals signals;
    std::raise(SIGINT);
    std::raise(SIGINT);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 130));
}
