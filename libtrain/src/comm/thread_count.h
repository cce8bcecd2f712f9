// The number of threads that a rank computes with: the cores that launcher, kernel and container grant it. Ranks that
// share a grant, such as the cores of a host, divide it among them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libtrain/comm/world.h"

namespace lt::comm {

// One limit on the cores of a rank.
struct CoreGrant {
  std::string key;  // equal only on the ranks that share the grant; empty: this rank's alone
  double cores;
  std::string words;  // for messages: "2 cores of this host"
};

// All that a process can find out about its cores. Texts and lists are empty if nothing was found.
struct CoreSources {
  std::string kernel;               // equal for all processes under one kernel, in any container
  std::vector<int> processors;      // the affinity mask
  std::vector<CoreGrant> quotas;    // cgroup limits
  std::string slurm_cpus_per_task;  // srun -c
  std::string slurm_cpus_on_node;   // of the Slurm step, for its tasks on this node
  std::string slurm_step;           // job, step and node; only in a step of srun
};

CoreSources core_sources(const LaunchInfo& info, const std::filesystem::path& root = "/");

// Throws CommError if Slurm's numbers are invalid.
std::vector<CoreGrant> core_grants(const CoreSources& sources);

// Returns this rank's smallest share, at least 1. `keys_of_ranks`: the keys of every rank's grants, this rank's
// included.
ThreadCount thread_count(const std::vector<CoreGrant>& grants,
                         const std::vector<std::vector<std::string>>& keys_of_ranks);

// Sets the threads of this rank's kernels. Every rank must call it with its grants. If OMP_NUM_THREADS is set, OpenMP's
// number stays. Throws CommError if that variable is invalid.
ThreadCount choose_threads(const std::vector<CoreGrant>& grants, const Group& world);

}  // namespace lt::comm
