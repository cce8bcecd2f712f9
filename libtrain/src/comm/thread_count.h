// The number of threads that a rank computes with: as many as the cores that launcher, kernel and container grant it. A
// grant that ranks share, such as the cores of a host, is divided among them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libtrain/comm/world.h"

namespace lt::comm {

// One limit on the cores of a rank.
struct CoreGrant {
  std::string key;  // equal on the ranks that share it, and on no others
  double cores;
  std::string words;  // "2 cores of this host"
};

// Everything a process can find out about its cores. Texts and lists are empty if nothing was found.
struct CoreSources {
  std::string kernel;               // equal for all processes under one kernel, in any container
  std::vector<int> processors;      // the affinity mask
  std::vector<CoreGrant> quotas;    // cgroup limits
  std::string slurm_cpus_per_task;  // srun -c
  std::string slurm_cpus_on_node;   // the step's, for its tasks on this node
  std::string slurm_step;           // job, step and node; only in a step of srun
};

CoreSources core_sources(const LaunchInfo& info, const std::filesystem::path& root = "/");

// Throws CommError if Slurm's numbers are invalid.
std::vector<CoreGrant> core_grants(const CoreSources& sources);

// The smallest of this rank's shares, at least 1. `keys_of_ranks`: the keys of all ranks' grants, this rank's too.
ThreadCount thread_count(const std::vector<CoreGrant>& grants,
                         const std::vector<std::vector<std::string>>& keys_of_ranks);

// Sets the threads of this rank's kernels. Every rank must call it with its grants. OMP_NUM_THREADS, if set, wins.
ThreadCount choose_threads(const std::vector<CoreGrant>& grants, const Group& world);

}  // namespace lt::comm
