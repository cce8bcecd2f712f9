// Finds the command line that started a run, with its launcher, so that it can be copied into a shell.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libtrain/comm/world.h"

namespace lt::run {

// `ltrain launch` tells its ranks its own command line in this variable.
inline constexpr const char* kCommandVariable = "LTRAIN_COMMAND";

// What is known of processes and of the environment.
struct ProcessView {
  std::function<std::vector<std::string>(int pid)> words;            // the command line; empty if unknown
  std::function<int(int pid)> parent;                                // 0 if unknown
  std::function<std::string(const std::string& variable)> variable;  // empty if it is not set
};
ProcessView system_view();

struct WholeCommand {
  std::string text;     // quoted for a shell: "mpirun -n 2 ltrain train --config a.toml"
  std::string program;  // the program in it, quoted: "ltrain"
};
// The command line that started process `pid`, a rank that `info` describes:
// - LTRAIN_COMMAND, if it is set;
// - else the command line of the nearest process above it that is the launcher of info.source: mpirun or torchrun;
// - else, for Slurm and Open MPI, srun or mpirun with the numbers that the environment has, before the rank's own
// words;
// - else the rank's own words.
// Values of mpirun's `-x NAME=VALUE` are left out unless NAME is a setting of a library, because they may be secrets.
WholeCommand whole_command(const LaunchInfo& info, int pid, const ProcessView& view);

}  // namespace lt::run
