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
  std::function<std::string(int pid)> folder;                        // its current folder; empty if unknown
  std::function<std::string(const std::string& variable)> variable;  // empty if it is not set
};
ProcessView system_view();

struct WholeCommand {
  std::string text;     // quoted for a shell: "mpirun -n 2 ltrain train --config a.toml"
  std::string program;  // the program in it, quoted: "ltrain"
  // True if options of `train` may be appended to the text. False for a program with options of its own.
  bool takes_options = false;
};
// The command line that started process `pid`, a rank that `info` describes:
// - LTRAIN_COMMAND, if it is set;
// - else the launcher of info.source and its options, followed by the rank's own words. The nearest process above the
//   rank that is mpirun or torchrun has the options. If that process starts a shell, which starts the rank, the shell
//   and its script are left out, and the text first changes to the rank's folder if the shell did. If no process has
//   the options, or they cannot be told from the words of another program, the text has the numbers of ranks and hosts;
// - without a launcher, the rank's own words.
// Values of environment variables among the launcher's options are left out, because they may be secrets. The values
// of libraries' settings stay.
// `settings` comes first: variables of the environment that the command needs, "LTRAIN_TRAIN_STEPS=9 "; may be empty.
WholeCommand whole_command(const LaunchInfo& info, int pid, const ProcessView& view, const std::string& settings = {});

}  // namespace lt::run
