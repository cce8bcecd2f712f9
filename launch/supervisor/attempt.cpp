// Waits on descriptors: the ranks' standard error, the end of each rank's process, and signals.
#include "launch/supervisor/attempt.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "device/seconds.h"
#include "launch/supervisor/cause.h"
#include "launch/supervisor/launcher_words.h"
#include "launch/supervisor/leftovers.h"

namespace lt::launch {
namespace {

constexpr double kLookSoon_s = 0.25, kSoon_s = 5, kLookLater_s = 5;  // between searches for the ranks' processes
constexpr double kLastWords_s = 3;       // the other ranks' time to end after a failure without a launcher
constexpr double kLauncherEnds_s = 2;    // a launcher's time to clean up
constexpr double kForwardAgain_s = 0.5;  // doubles; a launcher without ranks yet forwards a signal to nobody
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kLongestLine = 4096;  // bytes examined per line: the next attempt's environment holds the cause
constexpr int kReadsAtOnce = 16;            // from one child; together a pipe's capacity

// A process that we started, and its output.
struct Child {
  explicit Child(const ProcessSpec& spec) : process(spec) {}

  // Forwards the available output, up to a limit: a process that writes without pause must not keep the supervisor from
  // the others. `failed_rank` may be null.
  void read_errors(Output& output, FailedRank* failed_rank) {
    std::array<char, 4096> bytes{};
    for (int i = 0; i < kReadsAtOnce && !closed; ++i) {
      const ssize_t count = read(process.errors(), bytes.data(), bytes.size());
      if (count < 0) return;
      closed = count == 0;
      const std::string_view text(bytes.data(), static_cast<std::size_t>(count));
      output.write(words.pass(text));
      for (const char c : text) {
        if (c == '\n') {
          cause.read(line);
          if (failed_rank != nullptr) failed_rank->read(line);
          line.clear();
        } else if (line.size() < kLongestLine) {
          line += c;
        }
      }
    }
  }

  ChildProcess process;
  LauncherWords words;
  Cause cause;
  std::string line;  // the current one, possibly incomplete
  bool closed = false;
};

class Attempt {
 public:
  Attempt(AttemptSpec spec, StopSignals& stop, Output& output)
      : spec_(std::move(spec)),
        stop_(stop),
        output_(output),
        has_launcher_(spec_.processes[0].death_signal != SIGKILL) {
    for (ProcessSpec& process : spec_.processes) {
      children_.emplace_back(process);
      process.inherited.reset();  // the process has it
    }
  }
  ~Attempt() {
    for (const auto& [pid, descriptor] : ranks_) close(descriptor);
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  AttemptEnd run() {
    while (!all_ended()) {
      wait();
      stop_.take();
      read_errors();
      obey();
      if (device::monotonic_seconds() >= next_look_) look_for_ranks();
    }
    clean_up();
    read_errors();
    for (Child& child : children_) output_.write(child.words.finish());
    // Overrides the launcher's own code. Among plain processes, the first failure determines the code.
    if (killed_ && (has_launcher_ || code_ == 0)) code_ = 128 + SIGKILL;
    return {code_, children_[first_failed_].cause.text(code_, who_failed()),
            std::min(first_end_, device::monotonic_seconds()), out_of_time_, failed_rank_.rank()};
  }

 private:
  // Used if no message names the cause.
  std::string who_failed() const {
    if (!has_launcher_) return fmt::format("rank {}", first_failed_);
    if (!children_[0].process.was_signalled()) return "a rank";
    const std::string& path = spec_.processes[0].command[0];
    return path.substr(path.rfind('/') + 1);
  }

  bool all_ended() {
    bool all = true;
    for (std::size_t i = 0; i < children_.size(); ++i) {
      const auto code = children_[i].process.ended();
      all = all && code.has_value();
      if (!has_launcher_ && !killed_ && children_[i].process.was_signalled())
        failed_rank_.add_killed(static_cast<int>(i));
      if (!code || *code == 0 || code_ != 0) continue;
      code_ = *code, first_failed_ = i;
      if (has_launcher_) continue;
      first_end_ = device::monotonic_seconds();
      kill_at_ = std::min(kill_at_, device::monotonic_seconds() + kLastWords_s);
    }
    return all;
  }

  void wait() {
    std::vector<pollfd> waits = {{stop_.descriptor(), POLLIN, 0}};
    for (const auto& [pid, descriptor] : ranks_) waits.push_back({descriptor, POLLIN, 0});
    for (const Child& child : children_) {
      if (!child.closed) waits.push_back({child.process.errors(), POLLIN, 0});
    }
    const double seconds =
        std::min({next_look_, kill_at_, late_at_, launcher_kill_at_, stop_.asked() ? forward_at_ : kNever}) -
        device::monotonic_seconds();
    poll(waits.data(), waits.size(), static_cast<int>(std::max(0.0, seconds) * 1e3) + 1);
    std::size_t i = 0;
    std::erase_if(ranks_, [&](const auto& rank) {
      if (waits[++i].revents == 0) return false;
      first_end_ = std::min(first_end_, device::monotonic_seconds());
      close(rank.second);
      return true;
    });
    if (!ranks_.empty() || awaits_other_hosts()) {
      late_at_ = kNever;
    } else if (first_end_ != kNever && late_at_ == kNever) {
      late_at_ = device::monotonic_seconds() + spec_.launcher_late_s;
    }
  }

  // True if ranks of other hosts may still work, and no failure was reported.
  bool awaits_other_hosts() const { return spec_.has_other_hosts && !children_[0].cause.is_known(); }

  void read_errors() {
    // Once this supervisor has killed ranks, messages may be about those.
    for (Child& child : children_) child.read_errors(output_, killed_ ? nullptr : &failed_rank_);
  }

  // Handles signals and deadlines.
  void obey() {
    if (stop_.asked() && device::monotonic_seconds() >= forward_at_) {
      for (const Child& child : children_) child.process.send(SIGUSR1);
      if (forward_every_s_ == kForwardAgain_s && spec_.grace_s > 0) {
        grace_ends_ = device::monotonic_seconds() + spec_.grace_s;
        kill_at_ = std::min(kill_at_, grace_ends_);
      }
      forward_at_ = device::monotonic_seconds() + forward_every_s_;
      forward_every_s_ *= 2;
    }
    if ((stop_.at_once() || device::monotonic_seconds() >= std::min(kill_at_, late_at_)) &&
        launcher_kill_at_ == kNever) {
      out_of_time_ = !stop_.at_once() && device::monotonic_seconds() >= grace_ends_;
      end_ranks();
    }
    if (device::monotonic_seconds() < launcher_kill_at_) return;
    for (const Child& child : children_) child.process.send(SIGKILL);
    launcher_kill_at_ = device::monotonic_seconds() + kLauncherEnds_s;
  }

  // Ends the ranks of this host at once. Asks a launcher to end those of other hosts and to clean up.
  void end_ranks() {
    killed_ = true;
    kill_at_ = late_at_ = kNever;
    launcher_kill_at_ = device::monotonic_seconds() + (has_launcher_ ? kLauncherEnds_s : 0);
    for (const pid_t pid : ranks_of_this_host()) kill(pid, SIGKILL);
    if (!has_launcher_) return;
    for (const Child& child : children_) child.process.send(SIGTERM);
  }

  // The living processes of this attempt's ranks.
  std::vector<pid_t> ranks_of_this_host() const {
    std::vector<pid_t> found = marked_processes(spec_.mark);
    std::erase_if(found, [&](pid_t pid) { return !runs_this_program(pid); });
    return found;
  }

  void look_for_ranks() {
    next_look_ =
        device::monotonic_seconds() + (device::monotonic_seconds() < begin_ + kSoon_s ? kLookSoon_s : kLookLater_s);
    std::vector<pid_t> found = ranks_of_this_host();
    for (const pid_t pid : found) {
      if (ranks_.count(pid) > 0) continue;
      const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
      if (descriptor < 0) continue;
      ranks_.emplace(pid, descriptor);
    }
    for (const Child& child : children_) found.push_back(child.process.pid());
    shared_memory_.note(found);
  }

  void clean_up() {
    end_marked_processes(spec_.mark);
    shared_memory_.remove_unused();
    if (!has_launcher_) return;
    for (const Child& child : children_) remove_session_folder(child.process.pid());
  }

  AttemptSpec spec_;
  StopSignals& stop_;
  Output& output_;
  const bool has_launcher_;
  std::vector<Child> children_;
  std::map<pid_t, int> ranks_;  // living ones on this host: process id, and a descriptor that signals its end
  SharedMemoryFiles shared_memory_;
  FailedRank failed_rank_;
  int code_ = 0;
  std::size_t first_failed_ = 0;
  bool killed_ = false, out_of_time_ = false;  // by this supervisor; because the grace period was over
  const double begin_ = device::monotonic_seconds();
  double forward_at_ = 0, forward_every_s_ = kForwardAgain_s;
  double first_end_ = kNever, next_look_ = begin_ + kLookSoon_s, kill_at_ = kNever, late_at_ = kNever,
         grace_ends_ = kNever, launcher_kill_at_ = kNever;
};

}  // namespace

AttemptEnd run_attempt(AttemptSpec spec, StopSignals& stop, Output& output) {
  return Attempt(std::move(spec), stop, output).run();
}

}  // namespace lt::launch
