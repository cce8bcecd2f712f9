// Signals during training: the first one is only recorded, and the program's own handlers are restored afterwards.
#include "run/run_signals.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/threads.h"
#include "libtrain/kernels/random.h"
#include "libtrain/ops/ops.h"

#include "test_main/catch.h"

using namespace lt;
using namespace lt::run;

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

// Sends the signal to the process, as kill(1) does. A signal that is handled is noted soon, but not at once.
void send(int signal) { ::kill(::getpid(), signal); }
void await_noted() {
  while (RunSignals::noted() == 0) std::this_thread::yield();
}

}  // namespace

TEST_CASE("run signals: the first request is noted, and the program's handlers come back", "[train]") {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    const Handler own(signal, own_handler);
    own_calls = 0;
    {
      const RunSignals signals;
      CHECK(RunSignals::noted() == 0);
      send(signal);
      await_noted();
      send(signal == SIGTERM ? SIGUSR1 : SIGTERM);
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
    send(SIGINT);
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
    kernels::set_threads(1);  // the parent's team does not exist in the child
    const RunSignals signals;
    send(SIGINT);
    await_noted();
    send(SIGINT);
    ::sleep(20);  // ended by the signal
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 130));
}

// oneDNN's generated matmuls keep values below the stack pointer, where a handler on their thread would write.
TEST_CASE("run signals: thousands of them beside matmuls change no value", "[train]") {
  constexpr Size M = 512, N = 128, K = 512;
  const Tensor a = Tensor::empty({M, K}, DType::f32), b = Tensor::empty({K, N}, DType::f32);
  fill_normal(a.data<float>(), 1, 0, M * K, 0, 1), fill_normal(b.data<float>(), 2, 0, K * N, 0, 1);
  const std::vector<float> expected = ops::matmul(a, b).to_vector<float>();
  const RunSignals signals;
  std::atomic<int> left{4000};
  std::thread sender([&] {
    for (; left > 0; --left) {
      send(SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  Size different = 0;
  while (left > 0) different += ops::matmul(a, b).to_vector<float>() == expected ? 0 : 1;
  sender.join();
  CHECK(different == 0);
  CHECK(RunSignals::noted() == SIGUSR1);
}
