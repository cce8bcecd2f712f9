// How many threads a rank computes with: as many as the cores that launcher, kernel and container grant it. A grant
// that ranks share, such as the cores of a host, is divided among them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libtrain/comm/world.h"

namespace lt {

// One limit on the cores of a rank.
struct CoreGrant {
  std::string key;  // equal on the ranks that share it, and on no others
  double cores;
  std::string words;  // "2 cores of this host"
};

// What a process can find out. Empty text and empty lists where there is nothing to find.
struct CoreSources {
  std::string kernel;               // one text for all processes under one kernel, in whichever container
  std::vector<int> processors;      // the affinity mask
  std::vector<CoreGrant> quotas;    // of its cgroups
  std::string slurm_cpus_per_task;  // srun -c
  std::string slurm_cpus_on_node;   // of the step, for its tasks on this node
  std::string slurm_step;           // job, step and node, in a step of srun alone
};

CoreSources core_sources(const LaunchInfo& info, const std::filesystem::path& root = "/");

// Throws CommError where Slurm's numbers make no sense.
std::vector<CoreGrant> core_grants(const CoreSources& sources);

// The least of this rank's shares, at least 1. `keys_of_ranks`: the keys of every rank's grants, this rank's too.
ThreadCount thread_count(const std::vector<CoreGrant>& grants,
                         const std::vector<std::vector<std::string>>& keys_of_ranks);

// Sets the threads of this rank's kernels. Every rank calls it, with its grants. OMP_NUM_THREADS wins where it is set.
ThreadCount choose_threads(const std::vector<CoreGrant>& grants, const Group& world);

}  // namespace lt
