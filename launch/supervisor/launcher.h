// Ways to start ranks: with mpirun, with srun, or as plain processes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/child_process.h"

namespace lt::launch {

enum class Launcher { mpirun, srun, processes };
inline constexpr const char* kLauncherNames[] = {"mpirun", "srun", "plain processes"};

// Returns the path of a program on PATH, or nullopt if there is none. Returns a name with a slash unchanged.
std::optional<std::string> find_program(const std::string& name);

// `with` is auto, mpirun, srun or processes. auto chooses a plain process for one rank. For more ranks, it chooses the
// first that is available: srun in a Slurm allocation, mpirun, plain processes that meet over TCP. Throws CommError if
// `with` names a launcher that is not on PATH, UsageError if `with` is srun outside a Slurm allocation.
Launcher choose_launcher(const std::string& with, int ranks);

struct RankSpec {
  int ranks;
  std::string hostfile;              // for mpirun; empty: this host
  int slots;                         // slots in the hostfile; 0 without a hostfile
  std::vector<std::string> command;  // run by each rank; the first word is a path
  Environment environment;
  int ranks_per_host = 0;  // on each node of a Slurm job; 0: the launcher decides
};

// Returns the processes to start: one launcher, or one process per rank.
std::vector<ProcessSpec> processes_of(Launcher launcher, const RankSpec& spec);

}  // namespace lt::launch
