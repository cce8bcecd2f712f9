// Builds the command line of each launcher.
#include "launch/supervisor/launcher.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "comm/tcp/tcp_socket.h"
#include "comm/tcp/tcp_world.h"
#include "libtrain/error.h"

namespace lt::launch {
namespace {

std::vector<ProcessSpec> over_mpirun(const RankSpec& spec) {
  Environment environment = spec.environment;
  // A rank dies with the daemon that started it.
  environment["LTRAIN_DIE_WITH_PARENT"] = "1";
  // Open MPI 4.1 crashes without a home folder.
  if (environment.count("HOME") == 0 && getpwuid(geteuid()) == nullptr) environment["HOME"] = "/";
  std::vector<std::string> command = {find_program("mpirun").value(), "-n", std::to_string(spec.ranks),
                                      // A rank's threads need its cores; the default binds each rank to one core.
                                      "--bind-to", "none",
                                      // The other ranks block on a dead peer, so they are killed after one second.
                                      "--mca", "odls_base_sigkill_timeout", "1"};
  const auto add = [&](std::initializer_list<std::string> more) { command.insert(command.end(), more); };
  if (!spec.hostfile.empty()) add({"--hostfile", spec.hostfile});
  if (spec.ranks_per_host > 0) add({"--map-by", fmt::format("ppr:{}:node", spec.ranks_per_host)});
  // By default mpirun refuses to run as root, and to start more ranks than cores or slots.
  if (spec.hostfile.empty() || spec.ranks > spec.slots) add({"--oversubscribe"});
  if (geteuid() == 0) add({"--allow-run-as-root"});
  for (const auto& [name, value] : environment) {
    if (name.starts_with("LTRAIN_") || name.starts_with("OMP_") || name.starts_with("NCCL_") ||
        name == "LD_LIBRARY_PATH") {
      add({"-x", name});  // by name only: a token must not appear on a command line
    }
  }
  command.insert(command.end(), spec.command.begin(), spec.command.end());
  // On SIGTERM mpirun ends its ranks and cleans up.
  return {{command, environment, SIGTERM}};
}

std::vector<ProcessSpec> over_srun(const RankSpec& spec) {
  std::vector<std::string> command = {find_program("srun").value(), "-n", std::to_string(spec.ranks),
                                      // With --kill-on-bad-exit=1 srun returns 143, whatever the first code was.
                                      "--kill-on-bad-exit=0", "--wait=60"};
  if (spec.ranks_per_host > 0) command.push_back(fmt::format("--ntasks-per-node={}", spec.ranks_per_host));
  if (spec.environment.count("SLURM_MPI_TYPE") == 0) command.emplace_back("--mpi=pmix");
  // Since Slurm 22.05 srun does not take it from the job.
  if (const auto cpus = spec.environment.find("SLURM_CPUS_PER_TASK"); cpus != spec.environment.end()) {
    command.push_back("--cpus-per-task=" + cpus->second);
  }
  command.insert(command.end(), spec.command.begin(), spec.command.end());
  return {{command, spec.environment, SIGTERM}};
}

std::vector<ProcessSpec> as_processes(const RankSpec& spec) {
  if (spec.ranks == 1) return {{spec.command, spec.environment, SIGKILL}};
  const auto listener = std::make_shared<const comm::TcpListener>("127.0.0.1", 0);
  const auto inherited = std::shared_ptr<const io::Descriptor>(listener, &listener->handles().front());
  std::vector<ProcessSpec> all;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    Environment environment = spec.environment;
    environment["RANK"] = environment["LOCAL_RANK"] = std::to_string(rank);
    environment["WORLD_SIZE"] = environment["LOCAL_WORLD_SIZE"] = std::to_string(spec.ranks);
    environment["MASTER_ADDR"] = "127.0.0.1", environment["MASTER_PORT"] = std::to_string(listener->port());
    environment.erase(comm::kListenVariable);
    if (rank == 0) environment[comm::kListenVariable] = std::to_string(inherited->get());
    all.push_back({spec.command, environment, SIGKILL, rank == 0 ? inherited : nullptr});
  }
  return all;
}

bool is_there(const char* program) { return find_program(program).has_value(); }

}  // namespace

std::optional<std::string> find_program(const std::string& name) {
  if (name.find('/') != name.npos) return name;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = folder + "/" + name;
    if (!folder.empty() && access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

Launcher choose_launcher(const std::string& with, int ranks) {
  const bool in_allocation = std::getenv("SLURM_JOB_ID") != nullptr;
  if (with == "srun" || (with == "auto" && ranks > 1 && in_allocation && is_there("srun"))) {
    if (!is_there("srun")) throw CommError("--with srun: expected srun on PATH, found none");
    if (!in_allocation)
      throw UsageError("usage", "--with srun: expected a Slurm allocation, found none", "sbatch or salloc");
    return Launcher::srun;
  }
  if (with == "mpirun" || (with == "auto" && ranks > 1 && is_there("mpirun"))) {
    if (!is_there("mpirun")) throw CommError("--with mpirun: expected mpirun on PATH, found none");
    return Launcher::mpirun;
  }
  return Launcher::processes;
}

std::vector<ProcessSpec> processes_of(Launcher launcher, const RankSpec& spec) {
  switch (launcher) {
    case Launcher::mpirun: return over_mpirun(spec);
    case Launcher::srun: return over_srun(spec);
    case Launcher::processes: break;
  }
  return as_processes(spec);
}

}  // namespace lt::launch
