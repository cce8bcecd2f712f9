// Prepares the environment, the hostfile and the standard output of ranks.
#include "launch/supervisor/rank_starter.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "io/descriptor.h"
#include "io/entropy.h"
#include "libtrain/error.h"
#include "run/restart.h"

namespace lt::launch {
namespace {

// Variables that would say that each rank is a single one, or meets elsewhere, if this process has them.
constexpr const char* kOfAnotherLaunch[] = {
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_STEP_ID", "TORCHELASTIC_USE_AGENT_STORE"};

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

}  // namespace

RankStarter::RankStarter(const LaunchOptions& options)
    : options_(options),
      output_(STDERR_FILENO),
      // Read once. After the file was replaced the link would name the deleted one; a restart runs the new one.
      program_(std::filesystem::read_symlink("/proc/self/exe")),
      hosts_(options.hostfile.empty() ? std::vector<Host>() : read_hostfile(options.hostfile)) {
  if (options.ranks_per_host == 0) return;
  for (Host& host : hosts_) host.slots = options.ranks_per_host;
}

Ranks RankStarter::all_ranks() const {
  Ranks ranks{options_.ranks, hosts_, options_.arguments, current_environment()};
  for (const char* name : kOfAnotherLaunch) ranks.environment.erase(name);
  ranks.environment.erase(run::kRestartVariable);
  std::erase_if(ranks.environment,  // of the step that this shell belongs to: ranks would look for its MPI
                [](const auto& entry) { return entry.first.starts_with("PMIX_") || entry.first.starts_with("PMI_"); });
  return ranks;
}

AttemptEnd RankStarter::run(Ranks ranks) {
  const std::string token = draw_token();
  RankSpec spec{ranks.count, options_.hostfile, slots_of(ranks.hosts), {}, std::move(ranks.environment)};
  // By env, because mpirun does not pass the variable to another host.
  if (!ranks.devices.empty())
    spec.command = {find_program("env").value_or("/usr/bin/env"), "CUDA_VISIBLE_DEVICES=" + ranks.devices};
  spec.command.push_back(program_);
  spec.command.insert(spec.command.end(), ranks.arguments.begin(), ranks.arguments.end());
  spec.environment["LTRAIN_TOKEN"] = token;
  std::optional<TemporaryFile> hostfile;
  const bool is_fewer = ranks.hosts.size() < hosts_.size();
  if (is_fewer || (!hosts_.empty() && options_.ranks_per_host > 0))
    spec.hostfile = hostfile.emplace(hostfile_text(ranks.hosts)).path();
  if (is_fewer && are_this_host(ranks.hosts)) use_loopback(spec.environment);
  const bool has_other_hosts = uses_other_hosts(ranks.hosts);
  if (hosts_.empty() && has_other_hosts) spec.ranks_per_host = options_.ranks_per_host;
  if (is_read_by_nobody(STDOUT_FILENO)) {
    say("nobody reads the standard output any more, so ranks print to /dev/null; log.txt has what they say");
    const io::Descriptor nothing(open("/dev/null", O_WRONLY | O_CLOEXEC));
    dup2(nothing.get(), STDOUT_FILENO);
  }
  return run_attempt(
      {processes_of(options_.launcher, spec), "LTRAIN_TOKEN=" + token, options_.grace_s, has_other_hosts}, stop_,
      output_);
}

// By the hostfile, or by the Slurm allocation, which mpirun asks too.
bool RankStarter::uses_other_hosts(const std::vector<Host>& hosts) const {
  if (options_.launcher == Launcher::processes) return false;
  if (!hosts_.empty()) return !are_this_host(hosts);
  return nodes_of_slurm_job() > 1;
}

}  // namespace lt::launch
