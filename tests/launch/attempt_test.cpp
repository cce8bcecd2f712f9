// One attempt with shells as ranks: it returns the right exit code, and no reader can block it.
#include "launch/supervisor/attempt.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "comm/tcp/tcp_socket.h"
#include "io/readable.h"
#include "launch/supervisor/cause.h"
#include "launch/supervisor/launcher.h"
#include "test_main/catch.h"

using namespace lt::launch;

namespace {

const std::string kMark = fmt::format("LTRAIN_ATTEMPT_TEST={}", ::getpid());

ProcessSpec shell(const std::string& script) {
  Environment environment = current_environment();
  const std::size_t equals = kMark.find('=');
  environment[kMark.substr(0, equals)] = kMark.substr(equals + 1);
  return {{"/bin/sh", "-c", script}, environment, SIGKILL};
}

AttemptEnd end_of(const std::vector<std::string>& scripts, int errors = STDERR_FILENO) {
  AttemptSpec spec{{}, kMark, 0};
  for (const std::string& script : scripts) spec.processes.push_back(shell(script));
  StopSignals stop;
  Output output(errors);
  return run_attempt(spec, stop, output);
}

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    reads = lt::io::Descriptor(ends[0]), writes = lt::io::Descriptor(ends[1]);
  }
  lt::io::Descriptor reads, writes;
};

// What came of an output: bytes of it that were kept, and those that the notices count as dropped. Before a notice
// there may be a line feed that was added, which counts as kept. More output may follow a notice.
struct Account {
  std::size_t kept = 0, dropped = 0, notices = 0;
};

Account account(const std::string& read) {
  const std::string begin = "launch: dropped ", end = "in time\n";
  Account sum{.kept = read.size()};
  for (std::size_t at = read.find(begin); at != read.npos; at = read.find(begin, at + 1)) {
    const std::size_t after = read.find(end, at);
    if (after == read.npos) break;  // its end is still to come
    sum.dropped += std::strtoul(read.c_str() + at + begin.size(), nullptr, 10);
    sum.kept -= after + end.size() - at;
    ++sum.notices;
  }
  return sum;
}

}  // namespace

TEST_CASE("signals: a demand after a warning is no second demand", "[launch]") {
  StopSignals stop;
  const auto send = [&](int signal) { ::raise(signal), stop.take(); };
  send(SIGUSR1);
  CHECK(stop.first() == SIGUSR1);
  send(SIGTERM);
  CHECK_FALSE(stop.at_once());
  send(SIGINT);
  CHECK(stop.second() == SIGINT);
}

TEST_CASE("attempt: of plain processes the first that fails gives code and cause", "[launch]") {
  Pipe says_pid;
  // Rank 0 fails after rank 1 has ended and was waited for.
  const std::string pids = fmt::format("/proc/{}/fd", ::getpid());
  const AttemptEnd end = end_of({fmt::format("read pid < {0}/{1}; while kill -0 $pid; do :; done 2> /dev/null; exit 4",
                                             pids, says_pid.reads.get()),
                                 fmt::format("echo $$ > {0}/{1}; exit 3", pids, says_pid.writes.get())});
  CHECK(end.code == 3);
  CHECK(end.cause == "rank 1 ended with code 3");
  CHECK_FALSE(end.rank);
}

TEST_CASE("attempt: a plain process that a signal ended is the failed rank", "[launch]") {
  CHECK(end_of({"sleep 0.1; exit 75", "kill -9 $$"}).rank == 1);
  CHECK_FALSE(end_of({"kill -9 $$", "kill -9 $$"}).rank);
}

TEST_CASE("failed rank: only if all that blame a rank blame the same one", "[launch]") {
  const auto failed = [](const std::vector<std::string>& lines) {
    FailedRank rank;
    for (const std::string& line : lines) rank.read(line);
    return rank.rank();
  };
  const std::string noticed = "mpirun noticed that process rank 3 with PID 0 on node a exited on signal 9 (Killed).";
  const std::string task = "srun: error: node2: task 3: Killed", lost = "error: [comm] rank 0: rank 3 is silent";
  const std::string verdict = "error: [watchdog] rank 3 (host b, pid 7): no progress for 61.2 s at step 41";
  const std::string own = "error: [memory] rank 3: out of memory";
  for (const auto& lines :
       {std::vector{noticed}, {task}, {verdict}, {own}, {lost, noticed}, {lost, own}, {verdict, noticed}, {own, task}})
    CHECK(failed(lines) == 3);
  const std::string others = ", and not all its ranks are known here";
  for (const auto& lines : {std::vector<std::string>{},
                            {lost},
                            {lost, task},  // killed by Slurm after rank 0 had ended
                            {verdict + others},
                            {own, "error: [memory] rank 2: out of memory"},
                            {"error: [memory] rank 0: out of memory"},  // perhaps of all ranks
                            {"error: [memory] out of memory"},
                            {"error: [watchdog] ranks 2, 3 (host b): the processes are gone", noticed},
                            {"error: [watchdog] rank 2 (host b, pid 7): the process is gone", noticed},
                            {"  Process name: [[1,1],3]", "  Exit code:    1"},
                            {"error: [watchdog] different collectives: rank 3 (host b, pid 7) reached a, rank 2"}})
    CHECK_FALSE(failed(lines));
}

// Lives until the supervisor, whose process id is in the mark, holds a descriptor of a process: of this one.
TEST_CASE("a rank of the next test", "[.rank]") {
  const std::string folder = fmt::format("/proc/{}/fd", std::getenv("LTRAIN_ATTEMPT_TEST"));
  const auto is_seen = [&] {
    std::error_code failed;
    return std::ranges::any_of(lt::io::readable_entries(folder), [&](const auto& entry) {
      return std::filesystem::read_symlink(entry, failed).string().find("pidfd") != std::string::npos;
    });
  };
  const auto begin = std::chrono::steady_clock::now();
  while (!is_seen() && std::chrono::steady_clock::now() < begin + std::chrono::seconds(60)) ::usleep(1000);
}

TEST_CASE("attempt: a launcher waits for ranks of other hosts, unless one failed or may be cut off", "[launch]") {
  const std::string rank = fmt::format("/proc/{}/exe '[.rank]' > /dev/null; ", ::getpid());
  const auto end_with = [&](const std::string& script, bool has_other_hosts) {
    AttemptSpec spec{{shell(script)}, kMark, 0, has_other_hosts, 0.1};
    spec.processes[0].death_signal = SIGTERM;  // a launcher
    StopSignals stop;
    Output output(STDERR_FILENO);
    return run_attempt(spec, stop, output);
  };
  CHECK(end_with(rank + "sleep 0.8; exit 0", true).code == 0);
  CHECK(end_with(rank + "sleep 60", false).code == 137);
  // Ranks that the supervisor killed did not fail.
  const std::string notices = "trap 'echo mpirun noticed that process rank 0 exited on signal 9 >&2; exit' TERM; ";
  CHECK_FALSE(end_with(notices + rank + "sleep 60 & wait", false).rank);
  const AttemptEnd end = end_with("echo 'error: [watchdog] rank 1 is gone' >&2; " + rank + "sleep 60", true);
  CHECK(end.code == 137);
  CHECK(end.cause == "[watchdog] rank 1 is gone");
}

TEST_CASE("launcher: nobody can take the port of plain ranks before rank 0 listens", "[launch]") {
  RankSpec ranks{2,
                 "",
                 0,
                 {"/bin/sh", "-c", "[ -S /proc/self/fd/${LTRAIN_LISTEN_FD:-none} ]; [ $? = $RANK ]"},
                 shell("").environment};
  ranks.environment["LTRAIN_LISTEN_FD"] = "0";  // of another launch
  AttemptSpec spec{processes_of(Launcher::processes, ranks), kMark, 0};
  const int port = std::stoi(spec.processes[0].environment.at("MASTER_PORT"));
  std::string problem;
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  CHECK(lt::comm::tcp_connect("127.0.0.1", port, soon, problem));
  StopSignals stop;
  Output output(STDERR_FILENO);
  CHECK(run_attempt(std::move(spec), stop, output).code == 0);
  CHECK(lt::comm::TcpListener("127.0.0.1", port).port() == port);  // all have closed it
}

TEST_CASE("attempt: a reader that stalls and a line without end hold nothing up", "[launch]") {
  constexpr std::size_t kBytes = 3'000'000;
  const std::size_t total = kBytes + std::string("\nerror: [data] why\n").size();
  Pipe errors;
  StopSignals stop;
  std::string read;
  {
    Output output(errors.writes.get());
    const AttemptEnd end = run_attempt(
        {{shell(fmt::format("head -c {} /dev/zero >&2; echo >&2; echo 'error: [data] why' >&2; exit 3", kBytes))},
         kMark,
         0},
        stop, output);
    CHECK(end.code == 3);
    CHECK(end.cause == "[data] why");
    std::array<char, 65536> bytes{};
    while (account(read).kept + account(read).dropped < total) {
      const ssize_t count = ::read(errors.reads.get(), bytes.data(), bytes.size());
      REQUIRE(count > 0);
      read.append(bytes.data(), static_cast<std::size_t>(count));
    }
  }
  const Account all = account(read);
  CHECK(all.notices >= 1);
  CHECK(all.kept + all.dropped <= total + all.notices);
  // Besides what waits and what is being written, a pipe holds 64 KiB.
  CHECK(all.kept <= 2 * Output::kMostWaiting + 65536 + all.notices);
}

TEST_CASE("child process: its end is seen where SIGCHLD is ignored", "[launch]") {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  ChildProcess child(shell("exit 3"));
  while (!child.ended()) ::usleep(100);
  CHECK(child.ended() == 1);  // its code was dropped
  std::signal(SIGCHLD, before);
}
