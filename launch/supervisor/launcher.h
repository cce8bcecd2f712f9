// Ways to start ranks: around mpirun, around srun, or as plain processes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/child_process.h"

namespace lt::launch {

enum class Launcher { mpirun, srun, processes };
inline constexpr const char* kLauncherNames[] = {"mpirun", "srun", "plain processes"};

// The path of a program on PATH. A name with a slash is a path already.
std::optional<std::string> find_program(const std::string& name);

// `with` is auto, mpirun, srun or processes. auto chooses a plain process for one rank, srun inside a Slurm allocation,
// then mpirun, then plain processes that meet over TCP. Throws UsageError and CommError if the
// launcher is missing or cannot start these ranks.
Launcher choose_launcher(const std::string& with, int ranks);

struct RankSpec {
  int ranks;
  std::string hostfile;              // for mpirun; empty: this host
  int slots;                         // in the hostfile; 0 without one
  std::vector<std::string> command;  // for each rank; the first is a path
  Environment environment;
};

// The processes to wait for: one launcher, or each rank.
std::vector<ProcessSpec> processes_of(Launcher launcher, const RankSpec& spec);

}  // namespace lt::launch
