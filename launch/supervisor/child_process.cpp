// Fork and exec. Only async-signal-safe functions may be called between the two.
#include "launch/supervisor/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "libtrain/error.h"

namespace lt::launch {
namespace {

constexpr int kCannotRun = 127;
constexpr int kUnknown = 1;  // the system dropped the code because SIGCHLD was ignored

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

[[noreturn]] void become(char* const* command, char* const* environment, int death_signal, pid_t parent, int errors,
                         int inherited) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, death_signal);
  if (getppid() != parent) _exit(kCannotRun);  // the parent died before the call above
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(errors, STDERR_FILENO);
  if (inherited >= 0) fcntl(inherited, F_SETFD, 0);
  execve(command[0], command, environment);
  const char* reason = strerrordesc_np(errno);  // takes no lock: another thread may have held one at the fork
  for (const char* text : {"error: [launch] ", static_cast<const char*>(command[0]), ": ", reason, "\n"}) {
    if (write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
  }
  _exit(kCannotRun);
}

}  // namespace

Environment current_environment() {
  Environment all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != text.npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

ChildProcess::ChildProcess(const ProcessSpec& spec) {
  std::vector<std::string> command = spec.command, variables;
  for (const auto& [name, value] : spec.environment) variables.push_back(name + "=" + value);
  const std::vector<char*> arguments = pointers(command), environment = pointers(variables);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw InternalError("launch", std::string("pipe: ") + std::strerror(errno));
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    become(arguments.data(), environment.data(), spec.death_signal, parent, ends[1],
           spec.inherited == nullptr ? -1 : spec.inherited->get());
  }
  const int error = errno;
  close(ends[1]);
  errors_ = ends[0];
  if (pid_ < 0) {
    close(errors_);
    throw InternalError("launch", std::string("fork: ") + std::strerror(error));
  }
  fcntl(errors_, F_SETFL, O_NONBLOCK);
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && !ended()) {
    send(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (errors_ >= 0) close(errors_);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      errors_(std::exchange(other.errors_, -1)),
      status_(std::exchange(other.status_, std::nullopt)),
      signalled_(other.signalled_) {}

void ChildProcess::send(int signal) const {
  if (!status_) kill(pid_, signal);
}

std::optional<int> ChildProcess::ended() {
  if (status_) return status_;
  int status = 0;
  const pid_t waited = waitpid(pid_, &status, WNOHANG);
  if (waited == pid_) {
    signalled_ = WIFSIGNALED(status);
    status_ = signalled_ ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  } else if (waited < 0 && errno == ECHILD) {
    status_ = kUnknown;
  }
  return status_;
}

}  // namespace lt::launch
