// Installs the signal handler, which only records the first signal.
#include "train/run_signals.h"

#include <unistd.h>

#include <atomic>
#include <iterator>
#include <string>

namespace lt {
namespace {

constexpr int kSecondInterrupt = 130;  // the exit code

std::atomic<int> first_signal{0};
std::atomic<bool> interrupted{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);  // for the handler

extern "C" void note_signal(int signal) {
  if (signal == SIGINT && interrupted.exchange(true)) ::_exit(kSecondInterrupt);
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
}

struct RunSignal {
  int number;
  const char* name;
  void (*handler)(int);
};
const RunSignal kRunSignals[] = {
    {SIGTERM, "SIGTERM", note_signal},
    {SIGUSR1, "SIGUSR1", note_signal},
    {SIGINT, "SIGINT", note_signal},
    {SIGPIPE, "SIGPIPE", SIG_IGN},
};

}  // namespace

RunSignals::RunSignals() {
  static_assert(std::size(kRunSignals) == std::size(decltype(before_){}));
  first_signal = 0, interrupted = false;
  for (std::size_t i = 0; i < std::size(kRunSignals); ++i) {
    struct sigaction action {};
    action.sa_handler = kRunSignals[i].handler;
    action.sa_flags = SA_RESTART;
    ::sigaction(kRunSignals[i].number, nullptr, &before_[i]);
    if (kRunSignals[i].number == SIGINT && before_[i].sa_handler == SIG_IGN) continue;
    ::sigaction(kRunSignals[i].number, &action, nullptr);
  }
}

RunSignals::~RunSignals() {
  for (std::size_t i = 0; i < std::size(kRunSignals); ++i) ::sigaction(kRunSignals[i].number, &before_[i], nullptr);
  first_signal = 0;
}

int RunSignals::noted() { return first_signal; }

int agree_on_stop(const Group& control) {
  for (const std::string& noted : control.all_gather_bytes(std::to_string(RunSignals::noted()))) {
    if (noted != "0") return std::stoi(noted);
  }
  return 0;
}

std::string name_of_signal(int signal) {
  for (const RunSignal& known : kRunSignals) {
    if (known.number == signal) return known.name;
  }
  return std::to_string(signal);
}

}  // namespace lt
