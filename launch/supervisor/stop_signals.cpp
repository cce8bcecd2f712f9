// Reads the stop signals and SIGCHLD from a signalfd.
#include "launch/supervisor/stop_signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <string>

#include "device/seconds.h"
#include "libtrain/error.h"

namespace lt::launch {

namespace {

// nohup ignores signals for its command, and a shell ignores them for a background process.
bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) {
    if (!is_ignored(signal)) sigaddset(&signals, signal);
  }
  sigprocmask(SIG_BLOCK, &signals, &before_);
  descriptor_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor_ < 0) throw InternalError("launch", std::string("signalfd: ") + std::strerror(errno));
}

StopSignals::~StopSignals() {
  close(descriptor_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void StopSignals::take() {
  signalfd_siginfo info{};
  while (read(descriptor_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    if (first_ == 0) first_ = signal;
    if ((signal == SIGINT || signal == SIGTERM) && ++demands_ == 2) second_ = signal;
  }
}

void StopSignals::wait(double seconds) {
  const double end = device::monotonic_seconds() + seconds;
  for (take(); !asked() && device::monotonic_seconds() < end; take()) {
    pollfd ready{descriptor_, POLLIN, 0};
    poll(&ready, 1, static_cast<int>(std::ceil((end - device::monotonic_seconds()) * 1e3)));
  }
}

}  // namespace lt::launch
