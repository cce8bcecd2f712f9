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
#include "launch/supervisor/left_out.h"
#include "launch/supervisor/rank_starter.h"
#include "launch/supervisor/run_state.h"
#include "record/short_text.h"
#include "run/resolve_run.h"
#include "run/run_files.h"
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
      : options_(options),
        config_(config),
        starter_(options),
        run_(config),
        left_out_(starter_.all_ranks(), config.train.device, options.launcher) {}

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
      const std::string left_out = options_.min_ranks > 0 ? left_out_.add(tried_, end.rank) : "";
      if (!left_out.empty()) {
        const int slots = left_out_.slots(left_out_.hosts());
        const Size batch = global_batch();
        if (most_ranks(slots, batch) < least()) {
          starter_.say("{}; without {}, which failed in two attempts in a row, there are {}", what, left_out,
                       too_few(slots, batch));
          return give_up(kRestart);
        }
      }
      const double backoff_s = attempt == 1 || unproductive == 0
                                   ? 0
                                   : std::min(kMostBackoff_s, std::ldexp(options_.backoff_s, unproductive - 1));
      starter_.say("{}; attempt {} begins {}", what, attempt + 1,
                   backoff_s > 0 ? fmt::format("in {:g} s", backoff_s) : "now");
      if (!left_out.empty())
        starter_.say("the run continues without {}, which failed in two attempts in a row", left_out);
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
    tried_ = ranks_of(attempt);
    const AttemptEnd end = tried_.count > 0
                               ? starter_.run(tried_)
                               : AttemptEnd{kRestart,
                                            fmt::format("the hosts that answer have {}",
                                                        too_few(left_out_.slots(tried_.hosts), global_batch())),
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
    const std::string resume = attempt == 1 ? "" : resume_of_restart();
    if (!resume.empty()) add(ranks, resume);
    ranks.environment[run::kCommandVariable] = own_command(resume);
    if (attempt == 1) return ranks;
    ranks.environment.erase("LTRAIN_FAULT");
    ranks.environment[run::kRestartVariable] = run::to_json(restart_);
    if (options_.min_ranks > 0) keep_usable(ranks);
    return ranks;
  }

  // Keeps what is not left out of the hosts that answer, and 0 ranks if those would be too few. Fewer ranks keep the
  // global batch.
  void keep_usable(Ranks& ranks) {
    ranks.devices = left_out_.devices();
    const std::size_t all = left_out_.hosts().size();
    ranks.hosts = answering(left_out_.hosts());
    if (ranks.hosts.size() == all && left_out_.is_empty()) return;
    const Size batch = global_batch();
    ranks.count = most_ranks(left_out_.slots(ranks.hosts), batch);
    if (ranks.count < least()) {
      ranks.count = 0;
      return;
    }
    keep_threads(ranks);
    std::string what = ranks.hosts.size() == all ? "" : fmt::format("{} of {} hosts answer", ranks.hosts.size(), all);
    if (!left_out_.is_empty()) what += fmt::format("{}without {}", what.empty() ? "" : ", ", left_out_.text());
    if (ranks.count == options_.ranks) {
      starter_.say("{}: {}{}", what, left_out_.is_empty() ? "they have slots for " : "",
                   recorder::counted(ranks.count, "rank"));
    } else {
      add(ranks, fmt::format("--train.global_batch={}", batch));
      add(ranks, "--train.accum=1");  // the global batch determines it
      starter_.say("{}: {}, the same global batch of {}", what, recorder::counted(ranks.count, "rank"), batch);
    }
  }

  // With other ranks or hosts each rank would get another number of threads, and with it, on processors, other bits.
  void keep_threads(Ranks& ranks) const {
    if (!is_elastic(config_) || left_out_.uses_gpus(ranks.hosts)) return;
    const Size threads = run::threads_of_last_start(config_.run.dir);
    if (threads == 0) return;  // unknown
    std::string& given = ranks.environment["OMP_NUM_THREADS"];
    if (given.empty()) given = std::to_string(threads);
  }

  // Returns the largest number of ranks, up to `slots`, that can train with this global batch; 0 if there is none.
  int most_ranks(int slots, Size batch) const {
    const Size micro_batch = config_.train.micro_batch, shard = config_.parallel.shard_size;
    const std::vector<int> elastic = elastic_rank_counts(batch / micro_batch);
    const auto may_train = [&](int count) {
      return batch % (micro_batch * count) == 0 && (shard == 0 || count % shard == 0) &&
             (!is_elastic(config_) || std::ranges::find(elastic, count) != elastic.end());
    };
    int count = std::max(0, std::min(options_.ranks, slots));
    while (count > 0 && !may_train(count)) --count;
    return count;
  }

  // "slots for 3 ranks, of which at most 2 keep the global batch of 16, expected 3 or more".
  std::string too_few(int slots, Size batch) const {
    if (slots < least())
      return fmt::format("slots for {}, expected {} or more", recorder::counted(slots, "rank"), least());
    const int most = most_ranks(slots, batch);
    return fmt::format("slots for {}, of which {} the global batch of {}, expected {} or more",
                       recorder::counted(slots, "rank"),
                       most == 0 ? "none keeps" : fmt::format("at most {} keep", most), batch, least());
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

  // The samples of a step of all ranks, as they would choose them in a restart on all. Of an elastic run, it reads the
  // checkpoints.
  Size global_batch() const {
    const TrainConfig& train = config_.train;
    if (train.global_batch > 0) return train.global_batch;
    if (is_elastic(config_)) {
      Config restart = config_;
      if (resume_of_restart() == kContinue) restart.checkpoint.resume = "auto";
      try {
        if (const Size kept = run::kept_global_batch(restart); kept > 0) return kept;
      } catch (const DataError&) {  // run.json cannot be read, which the ranks report
      }
    }
    return train.micro_batch * train.accum * options_.ranks;
  }

  // The option that a restart gets, or an empty text. It continues from the newest step of earlier attempts, not from
  // the first one's start. If an attempt saved nothing, the next one begins again: from where run.json says, or in a
  // fresh folder if the attempt had no time for it.
  std::string resume_of_restart() const {
    const std::string& resume = config_.checkpoint.resume;
    if (resume == "auto" || !run_.is_begun()) return {};
    if (resume == "never" || !run_.saved().is_empty() || run_.begins_again()) return kContinue;
    return "--run.force=true";
  }

  const LaunchOptions& options_;
  const Config& config_;
  RankStarter starter_;
  RunState run_;
  LeftOut left_out_;
  Ranks tried_{};         // by the last attempt
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
