// Runs attempts one after another, and decides after each whether another one follows.
#include "launch/supervisor/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "device/host.h"
#include "device/seconds.h"
#include "io/descriptor.h"
#include "io/entropy.h"
#include "io/shell_word.h"
#include "launch/supervisor/attempt.h"
#include "launch/supervisor/hosts.h"
#include "launch/supervisor/run_state.h"
#include "launch/supervisor/stop_signals.h"
#include "run/whole_command.h"

namespace lt::launch {
namespace {

constexpr int kRestart = static_cast<int>(ExitCode::restart);
constexpr int kInterrupted = 130;
constexpr int kMostUnproductive = 3;  // attempts in a row that saved nothing new
constexpr double kMostBackoff_s = 60;
constexpr const char* kContinue = "--checkpoint.resume=auto";

// Variables that would say that each rank is a single one, or meets elsewhere, if this process has them.
constexpr const char* kOfAnotherLaunch[] = {
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_STEP_ID", "TORCHELASTIC_USE_AGENT_STORE"};

// Whether a restart may help: some errors would recur.
bool may_be_followed(int code) { return code == 1 || code == kRestart || code >= 128; }

// Draws 128 random bits: the secret of the ranks' meeting, and the mark of their processes.
std::string draw_token() { return io::random_hex(32); }

// A temporary file that its destructor removes.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / "ltrain-hosts-XXXXXX") {
    const io::Descriptor file(mkostemp(path_.data(), O_CLOEXEC));
    if (!file.is_open() || !file.write(text.data(), text.size()))
      throw InternalError("launch", path_ + ": cannot be written");
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The interface that Open MPI was told to use may be down, for example after a pulled cable. A single host needs none.
void use_loopback(Environment& environment) {
  for (const char* name : {"OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_btl_tcp_if_include"}) {
    if (environment.count(name) > 0) environment[name] = "lo";
  }
}

// Ranks that print to a pipe without a reader, or where nothing can be written, are ended by their launcher. Returns
// whether they would be.
bool is_read_by_nobody(int descriptor) {
  if ((fcntl(descriptor, F_GETFL) & O_ACCMODE) == O_RDONLY) return true;
  pollfd entry{descriptor, POLLOUT, 0};
  return poll(&entry, 1, 0) > 0 && (entry.revents & POLLERR) != 0;
}

class Supervisor {
 public:
  // `config` is null for a command that has no run.
  Supervisor(const LaunchOptions& options, const Config* config)
      : options_(options),
        config_(config),
        hosts_(options.hostfile.empty() ? std::vector<Host>() : read_hostfile(options.hostfile)) {
    if (config != nullptr) run_.emplace(*config);
    if (options.ranks_per_host == 0) return;
    for (Host& host : hosts_) host.slots = options.ranks_per_host;
  }

  ExitCode run_once() {
    const AttemptEnd end = start(1, {});
    if (stop_.asked() && end.code != 0) return ExitCode{128 + stop_.first()};
    if (end.code >= 128) say("{} ended: {} (code {})", options_.arguments[0], end.cause, end.code);
    return ExitCode{end.code};
  }

  ExitCode run() {
    int unproductive = 0;
    for (int attempt = 1;; ++attempt) {
      const RunState::Saved before = run_->saved();
      const RunState::MetricsEnd metrics_end = run_->metrics_end();
      const AttemptEnd end = start(attempt, metrics_end);
      const int code = end.code >= 128 ? kRestart : end.code;
      if (stop_.second() == SIGINT) return ExitCode{kInterrupted};
      if (stop_.asked()) {
        if (end.out_of_time) say("the ranks did not save within {:g} s and were killed", options_.grace_s);
        return give_up(code);
      }
      if (!may_be_followed(end.code) || (code == kRestart && run_->was_stopped(metrics_end))) return give_up(code);
      unproductive = run_->saved().has_more_than(before) ? 0 : unproductive + 1;
      const std::string what = fmt::format("attempt {} ended: {} (code {})", attempt, end.cause, end.code);
      if (attempt > options_.restarts) {
        say("{}; no restart is left of {}", what, options_.restarts);
        return give_up(code);
      }
      if (unproductive == kMostUnproductive) {
        say("{}; {} attempts in a row saved nothing new: no further one", what, unproductive);
        return give_up(code);
      }
      const double backoff_s = attempt == 1 || unproductive == 0
                                   ? 0
                                   : std::min(kMostBackoff_s, std::ldexp(options_.backoff_s, unproductive - 1));
      say("{}; attempt {} begins {}", what, attempt + 1, backoff_s > 0 ? fmt::format("in {:g} s", backoff_s) : "now");
      restart_ = {attempt + 1, end.cause, end.code, device::monotonic_seconds() - end.failed, backoff_s, 0};
      stop_.wait(backoff_s);
      if (stop_.asked()) return ExitCode::restart;
    }
  }

 private:
  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    output_.write(fmt::format("launch: {}\n", fmt::format(format, std::forward<Args>(args)...)));
  }

  // Leaves the copies in memory for the next start.
  ExitCode give_up(int code) {
    if (const Size step = run_->copied_step(); step > run_->saved_step()) {
      say("memory of the hosts has copies up to step {}, newer than the disk; the next start there goes on from them",
          step);
    }
    return ExitCode{code};
  }

  AttemptEnd start(int attempt, const RunState::MetricsEnd& metrics_end) {
    restart_.began = device::since_1970(), restart_.began_monotonic = device::monotonic_seconds(),
    restart_.kernel = device::kernel_identity();
    std::optional<TemporaryFile> hostfile;
    RankSpec ranks = ranks_of(attempt, hostfile);
    if (ranks.ranks == 0) {
      if (attempt > 1) record(metrics_end);
      return {kRestart, fmt::format("hosts for {} ranks answer, expected {} or more", slots_of(there_), least()),
              device::monotonic_seconds()};
    }
    const std::string token = draw_token();
    ranks.environment["LTRAIN_TOKEN"] = token;
    ranks.environment.erase(run::kRestartVariable);
    if (attempt > 1) {
      ranks.environment.erase("LTRAIN_FAULT");
      ranks.environment[run::kRestartVariable] = run::to_json(restart_);
    }
    if (is_read_by_nobody(STDOUT_FILENO)) {
      say("nobody reads the standard output any more, so ranks print to /dev/null; log.txt has what they say");
      const io::Descriptor nothing(open("/dev/null", O_WRONLY | O_CLOEXEC));
      dup2(nothing.get(), STDOUT_FILENO);
    }
    const AttemptEnd end = run_attempt(
        {processes_of(options_.launcher, ranks), "LTRAIN_TOKEN=" + token, options_.grace_s, uses_other_hosts()}, stop_,
        output_);
    if (attempt > 1) record(metrics_end);
    return end;
  }

  // A full disk must not prevent a restart.
  void record(const RunState::MetricsEnd& end) try { run_->record(restart_, end); } catch (const Error& error) {
    say("attempt {} is not in the run's metrics: {}", restart_.attempt, error.what());
  }

  // By the hostfile, or by the Slurm allocation, which mpirun asks too.
  bool uses_other_hosts() const {
    if (options_.launcher == Launcher::processes) return false;
    if (!hosts_.empty()) return !are_this_host(there_);
    const char* const nodes = std::getenv("SLURM_JOB_NUM_NODES");
    return nodes != nullptr && std::string(nodes) != "1";
  }

  int least() const { return options_.min_ranks == 0 ? options_.ranks : options_.min_ranks; }

  // Returns 0 ranks if too few hosts are left.
  RankSpec ranks_of(int attempt, std::optional<TemporaryFile>& hostfile) {
    there_ = attempt > 1 && options_.min_ranks > 0 ? answering(hosts_) : hosts_;
    RankSpec spec{options_.ranks, options_.hostfile, slots_of(there_), {}, current_environment()};
    if (!hosts_.empty() && options_.ranks_per_host > 0) {
      spec.hostfile = hostfile.emplace(hostfile_text(there_)).path();
    } else if (uses_other_hosts()) {
      spec.ranks_per_host = options_.ranks_per_host;
    }
    for (const char* name : kOfAnotherLaunch) spec.environment.erase(name);
    std::erase_if(
        spec.environment,  // of the step that this shell belongs to: ranks would look for its MPI
        [](const auto& entry) { return entry.first.starts_with("PMIX_") || entry.first.starts_with("PMI_"); });
    spec.command = {program_};
    spec.command.insert(spec.command.end(), options_.arguments.begin(), options_.arguments.end());
    const auto add = [&](const std::string& option) {  // not behind a `--` of the user's
      spec.command.insert(std::find(spec.command.begin(), spec.command.end(), "--"), option);
    };
    const std::vector<std::string> resume = resume_options(attempt);
    for (const std::string& option : resume) add(option);
    if (config_ != nullptr) spec.environment[run::kCommandVariable] = own_command(resume);
    if (hosts_.empty()) return spec;
    if (there_.size() == hosts_.size()) return spec;
    if (are_this_host(there_)) use_loopback(spec.environment);
    hostfile.emplace(hostfile_text(there_));
    spec.hostfile = hostfile->path();
    const auto may_train = [&](int ranks) {
      const Size shard = config_->parallel.shard_size;
      return global_batch() % (config_->train.micro_batch * ranks) == 0 && (shard == 0 || ranks % shard == 0);
    };
    spec.ranks = std::min(options_.ranks, spec.slots);
    while (spec.ranks >= least() && !may_train(spec.ranks)) --spec.ranks;
    if (spec.ranks < least()) {
      spec.ranks = 0;
      return spec;
    }
    if (spec.ranks == options_.ranks) {
      say("{} of {} hosts answer: they have slots for {} ranks", there_.size(), hosts_.size(), spec.ranks);
      return spec;
    }
    add(fmt::format("--train.global_batch={}", global_batch()));
    add("--train.accum=1");  // the global batch determines it
    say("{} of {} hosts answer: {} ranks, the same global batch of {}", there_.size(), hosts_.size(), spec.ranks,
        global_batch());
    return spec;
  }

  // This process's command line. If a later attempt continues the run, so does this one.
  std::string own_command(const std::vector<std::string>& resume) const {
    std::vector<std::string> words = run::system_view().words(getpid());
    const std::vector<std::string>& arguments = options_.arguments;
    const auto begin = static_cast<std::ptrdiff_t>(words.size()) - static_cast<std::ptrdiff_t>(arguments.size());
    if (resume != std::vector<std::string>{kContinue} || begin < 1) return io::shell_text(words);
    const auto first = words.begin() + begin;
    if (*(first - 1) != "--" || !std::equal(first, words.end(), arguments.begin())) return io::shell_text(words);
    words.insert(std::find(first, words.end(), "--"), kContinue);
    return io::shell_text(words);
  }

  Size global_batch() const {
    const TrainConfig& train = config_->train;
    return train.global_batch > 0 ? train.global_batch : train.micro_batch * train.accum * options_.ranks;
  }

  // A later attempt continues from the newest step of earlier ones, not from the first one's start. If an attempt saved
  // nothing, the next one begins again: from where run.json says, or in a fresh folder if the attempt had no time for
  // it.
  std::vector<std::string> resume_options(int attempt) const {
    const std::string& resume = config_->checkpoint.resume;
    if (attempt == 1 || resume == "auto" || !run_->is_begun()) return {};
    if (resume == "never" || !run_->saved().is_empty() || run_->begins_again()) return {kContinue};
    return {"--run.force=true"};
  }

  const LaunchOptions& options_;
  const Config* const config_;
  std::optional<RunState> run_;  // if config_ is not null
  StopSignals stop_;
  Output output_{STDERR_FILENO};
  // Read once. After the file was replaced the link would name the deleted one; a restart runs the new one.
  const std::string program_ = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<Host> hosts_, there_;  // all of the hostfile; those that answer
  run::Restart restart_;             // for the next attempt
};

void prepare() {
  std::signal(SIGPIPE, SIG_IGN);  // this process continues when nobody reads its output
  std::signal(SIGCHLD, SIG_DFL);  // if it were ignored, the system would drop exit codes
}

}  // namespace

ExitCode supervise(const LaunchOptions& options, const Config& config) {
  prepare();
  return Supervisor(options, &config).run();
}

ExitCode run_once(const LaunchOptions& options) {
  prepare();
  return Supervisor(options, nullptr).run_once();
}

}  // namespace lt::launch
