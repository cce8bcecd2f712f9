// Blocks the signals, records the first one, and ends the process at the second interrupt.
#include "run/run_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "comm/value_exchange.h"
#include "kernels/threads.h"

namespace lt::run {
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
// What is ignored becomes an error of the write: to a pipe without a reader, or beyond a limit on the size of files.
const RunSignal kRunSignals[] = {
    {SIGTERM, "SIGTERM", note_signal}, {SIGUSR1, "SIGUSR1", note_signal}, {SIGINT, "SIGINT", note_signal},
    {SIGPIPE, "SIGPIPE", SIG_IGN},     {SIGXFSZ, "SIGXFSZ", SIG_IGN},
};

// The file from which blocked signals are read, while a RunSignals object exists. A signal is taken from the system and
// noted under one lock, so that whoever looks next sees it.
struct SignalFile {
  std::mutex mutex;
  io::Descriptor file;

  void set(io::Descriptor opened) {
    const std::lock_guard lock(mutex);
    file = std::move(opened);
  }
  void note_pending() {
    const std::lock_guard lock(mutex);
    signalfd_siginfo info{};
    while (file.is_open() && ::read(file.get(), &info, sizeof info) == sizeof info) {
      note_signal(static_cast<int>(info.ssi_signo));
    }
  }
};

SignalFile& signal_file() {
  static SignalFile file;
  return file;
}

// Notes signals as they come, until `end` can be read.
void receive(int file, int end) {
  for (;;) {
    pollfd files[] = {{file, POLLIN, 0}, {end, POLLIN, 0}};
    if (::poll(files, std::size(files), -1) < 0 && errno != EINTR) return;
    if (files[1].revents != 0) return;
    if (files[0].revents != 0) signal_file().note_pending();
  }
}

}  // namespace

RunSignals::RunSignals() {
  static_assert(std::size(kRunSignals) == std::size(decltype(before_){}));
  first_signal = 0, interrupted = false;
  sigset_t stops;
  ::sigemptyset(&stops);
  for (std::size_t i = 0; i < std::size(kRunSignals); ++i) {
    struct sigaction action {};
    action.sa_handler = kRunSignals[i].handler;
    action.sa_flags = SA_RESTART;
    ::sigaction(kRunSignals[i].number, nullptr, &before_[i]);
    if (kRunSignals[i].number == SIGINT && before_[i].sa_handler == SIG_IGN) continue;
    ::sigaction(kRunSignals[i].number, &action, nullptr);
    if (kRunSignals[i].handler == note_signal) ::sigaddset(&stops, kRunSignals[i].number);
  }
  const int file = ::signalfd(-1, &stops, SFD_NONBLOCK | SFD_CLOEXEC);
  end_ = io::Descriptor(::eventfd(0, EFD_CLOEXEC));
  signal_file().set(io::Descriptor(file));
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_before_);
  if (file < 0 || !end_.is_open()) return;  // without descriptors the handlers run on any thread
  ::pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  kernels::on_each_thread([&] { ::pthread_sigmask(SIG_BLOCK, &stops, nullptr); });
  try {
    receiver_ = std::thread([file, end = end_.get()] { receive(file, end); });
  } catch (const std::system_error&) {
    // Without a thread the signals are noted when somebody asks, and a second interrupt waits until then.
  }
}

RunSignals::~RunSignals() {
  if (receiver_.joinable()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(end_.get(), &one, sizeof one);
    receiver_.join();
    signal_file().note_pending();  // what has come is this object's
  }
  signal_file().set(io::Descriptor());
  // Handlers first: a signal that comes now reaches the earlier one.
  for (std::size_t i = 0; i < std::size(kRunSignals); ++i) ::sigaction(kRunSignals[i].number, &before_[i], nullptr);
  kernels::on_each_thread([&] { ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr); });
  first_signal = 0;
}

int RunSignals::noted() {
  signal_file().note_pending();
  return first_signal;
}

int agree_on_stop(const Group& control) {
  for (const int noted : comm::gather_values(control, RunSignals::noted())) {
    if (noted != 0) return noted;
  }
  return 0;
}

std::string name_of_signal(int signal) {
  for (const RunSignal& known : kRunSignals) {
    if (known.number == signal) return known.name;
  }
  return std::to_string(signal);
}

}  // namespace lt::run
