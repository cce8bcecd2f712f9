// How ranks are started: around mpirun, around srun, or as plain processes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "supervisor/child_process.h"

namespace lt::launch {

enum class Launcher { mpirun, srun, processes };
inline constexpr const char* kLauncherNames[] = {"mpirun", "srun", "plain processes"};

// The path of a program on PATH; a name with a slash stands for itself.
std::optional<std::string> find_program(const std::string& name);

// `with` is auto, mpirun, srun or processes. By itself: one rank is a plain process; inside of a Slurm allocation srun;
// then mpirun; then, in a build for CUDA, plain processes, which meet over TCP. Throws UsageError and CommError where
// it is not there or cannot start these ranks.
Launcher choose_launcher(const std::string& with, int ranks);

struct RankSpec {
  int ranks;
  std::string hostfile;              // of mpirun; empty: this host
  int slots;                         // of the hostfile; 0 without one
  std::vector<std::string> command;  // of each rank; the first is a path
  Environment environment;
};

// The processes whose end is the end of all ranks: one launcher, or each rank.
std::vector<ProcessSpec> processes_of(Launcher launcher, const RankSpec& spec);

}  // namespace lt::launch
