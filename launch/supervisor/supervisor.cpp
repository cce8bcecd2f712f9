// Runs attempts one after another, and decides after each whether another one follows.
#include "launch/supervisor/supervisor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "device/host.h"
#include "device/seconds.h"
#include "io/shell_word.h"
#include "launch/supervisor/rank_starter.h"
#include "launch/supervisor/run_state.h"
#include "record/short_text.h"
#include "run/whole_command.h"

namespace lt::launch {
namespace {

constexpr int kRestart = static_cast<int>(ExitCode::restart);
constexpr int kInterrupted = 130;
constexpr int kMostUnproductive = 3;  // attempts in a row that saved nothing new
constexpr double kMostBackoff_s = 60;
constexpr const char* kContinue = "--checkpoint.resume=auto";

// Whether a restart may help: some errors would recur.
bool may_be_followed(int code) { return code == 1 || code == kRestart || code >= 128; }

// Restarts the ranks of a training run.
class Supervisor {
 public:
  Supervisor(const LaunchOptions& options, const Config& config)
      : options_(options), config_(config), starter_(options), run_(config) {}

  ExitCode run() {
    int unproductive = 0;
    for (int attempt = 1;; ++attempt) {
      const RunState::Saved before = run_.saved();
      const RunState::MetricsEnd metrics_end = run_.metrics_end();
      const AttemptEnd end = start(attempt, metrics_end);
      const int code = end.code >= 128 ? kRestart : end.code;
      if (starter_.stop().second() == SIGINT) return ExitCode{kInterrupted};
      if (starter_.stop().asked()) {
        if (end.out_of_time) starter_.say("the ranks did not save within {:g} s and were killed", options_.grace_s);
        return give_up(code);
      }
      if (!may_be_followed(end.code) || (code == kRestart && run_.was_stopped(metrics_end))) return give_up(code);
      unproductive = run_.saved().has_more_than(before) ? 0 : unproductive + 1;
      const std::string what = fmt::format("attempt {} ended: {} (code {})", attempt, end.cause, end.code);
      if (attempt > options_.restarts) {
        starter_.say("{}; no restart is left of {}", what, options_.restarts);
        return give_up(code);
      }
      if (unproductive == kMostUnproductive) {
        starter_.say("{}; {} attempts in a row saved nothing new: no further one", what, unproductive);
        return give_up(code);
      }
      const double backoff_s = attempt == 1 || unproductive == 0
                                   ? 0
                                   : std::min(kMostBackoff_s, std::ldexp(options_.backoff_s, unproductive - 1));
      starter_.say("{}; attempt {} begins {}", what, attempt + 1,
                   backoff_s > 0 ? fmt::format("in {:g} s", backoff_s) : "now");
      restart_ = {attempt + 1, end.cause, end.code, device::monotonic_seconds() - end.failed, backoff_s, 0};
      starter_.stop().wait(backoff_s);
      if (starter_.stop().asked()) return ExitCode::restart;
    }
  }

 private:
  // Leaves the copies in memory for the next start.
  ExitCode give_up(int code) {
    if (const Size step = run_.copied_step(); step > run_.saved_step()) {
      starter_.say(
          "the hosts' memory has copies up to step {}, newer than the disk; the next start on these hosts resumes from "
          "them",
          step);
    }
    return ExitCode{code};
  }

  AttemptEnd start(int attempt, const RunState::MetricsEnd& metrics_end) {
    restart_.began = device::since_1970(), restart_.began_monotonic = device::monotonic_seconds(),
    restart_.kernel = device::kernel_identity();
    Ranks ranks = ranks_of(attempt);
    const AttemptEnd end = ranks.count > 0
                               ? starter_.run(std::move(ranks))
                               : AttemptEnd{kRestart,
                                            fmt::format("the hosts that answer have slots for {}, expected {} or more",
                                                        recorder::counted(slots_of(ranks.hosts), "rank"), least()),
                                            device::monotonic_seconds()};
    if (attempt > 1) record(metrics_end);
    return end;
  }

  // A full disk must not prevent a restart.
  void record(const RunState::MetricsEnd& end) try { run_.record(restart_, end); } catch (const Error& error) {
    starter_.say("attempt {} is not in the run's metrics: {}", restart_.attempt, error.what());
  }

  int least() const { return options_.min_ranks == 0 ? options_.ranks : options_.min_ranks; }

  // Returns 0 ranks if too few hosts are left.
  Ranks ranks_of(int attempt) {
    Ranks ranks = starter_.all_ranks();
    const std::string resume = resume_option(attempt);
    if (!resume.empty()) add(ranks, resume);
    ranks.environment[run::kCommandVariable] = own_command(resume);
    if (attempt == 1) return ranks;
    ranks.environment.erase("LTRAIN_FAULT");
    ranks.environment[run::kRestartVariable] = run::to_json(restart_);
    if (options_.min_ranks > 0) keep_answering_hosts(ranks);
    return ranks;
  }

  // Keeps the global batch if fewer ranks are left, and 0 ranks if those would be too few.
  void keep_answering_hosts(Ranks& ranks) {
    const std::size_t all = ranks.hosts.size();
    ranks.hosts = answering(ranks.hosts);
    if (ranks.hosts.size() == all) return;
    const auto may_train = [&](int count) {
      const Size shard = config_.parallel.shard_size;
      return global_batch() % (config_.train.micro_batch * count) == 0 && (shard == 0 || count % shard == 0);
    };
    const int slots = slots_of(ranks.hosts);
    ranks.count = std::min(options_.ranks, slots);
    while (ranks.count >= least() && !may_train(ranks.count)) --ranks.count;
    if (ranks.count < least()) {
      ranks.count = 0;
    } else if (ranks.count == options_.ranks) {
      starter_.say("{} of {} hosts answer: they have slots for {} ranks", ranks.hosts.size(), all, ranks.count);
    } else {
      add(ranks, fmt::format("--train.global_batch={}", global_batch()));
      add(ranks, "--train.accum=1");  // the global batch determines it
      starter_.say("{} of {} hosts answer: {} ranks, the same global batch of {}", ranks.hosts.size(), all, ranks.count,
                   global_batch());
    }
  }

  // Not behind a `--` of the user's.
  static void add(Ranks& ranks, const std::string& option) {
    ranks.arguments.insert(std::find(ranks.arguments.begin(), ranks.arguments.end(), "--"), option);
  }

  // This process's command line. If a later attempt continues the run, so does this one.
  std::string own_command(const std::string& resume) const {
    std::vector<std::string> words = run::system_view().words(getpid());
    const std::vector<std::string>& arguments = options_.arguments;
    const auto begin = static_cast<std::ptrdiff_t>(words.size()) - static_cast<std::ptrdiff_t>(arguments.size());
    if (resume != kContinue || begin < 1) return io::shell_text(words);
    const auto first = words.begin() + begin;
    if (*(first - 1) != "--" || !std::equal(first, words.end(), arguments.begin())) return io::shell_text(words);
    words.insert(std::find(first, words.end(), "--"), kContinue);
    return io::shell_text(words);
  }

  Size global_batch() const {
    const TrainConfig& train = config_.train;
    return train.global_batch > 0 ? train.global_batch : train.micro_batch * train.accum * options_.ranks;
  }

  // The option that an attempt gets, or an empty text. A later attempt continues from the newest step of earlier ones,
  // not from the first one's start. If an attempt saved nothing, the next one begins again: from where run.json says,
  // or in a fresh folder if the attempt had no time for it.
  std::string resume_option(int attempt) const {
    const std::string& resume = config_.checkpoint.resume;
    if (attempt == 1 || resume == "auto" || !run_.is_begun()) return {};
    if (resume == "never" || !run_.saved().is_empty() || run_.begins_again()) return kContinue;
    return "--run.force=true";
  }

  const LaunchOptions& options_;
  const Config& config_;
  RankStarter starter_;
  RunState run_;
  run::Restart restart_;  // for the next attempt
};

void prepare() {
  std::signal(SIGPIPE, SIG_IGN);  // this process continues when nobody reads its output
  std::signal(SIGCHLD, SIG_DFL);  // if it were ignored, the system would drop exit codes
}

}  // namespace

ExitCode supervise(const LaunchOptions& options, const Config& config) {
  prepare();
  return Supervisor(options, config).run();
}

ExitCode run_once(const LaunchOptions& options) {
  prepare();
  RankStarter starter(options);
  const AttemptEnd end = starter.run(starter.all_ranks());
  if (starter.stop().asked() && end.code != 0) return ExitCode{128 + starter.stop().first()};
  if (end.code >= 128) starter.say("{} ended: {} (code {})", options.arguments[0], end.cause, end.code);
  return ExitCode{end.code};
}

}  // namespace lt::launch
