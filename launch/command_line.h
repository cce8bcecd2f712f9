// Parses argv into a function that runs the chosen command.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launch/command.h"

namespace lt::launch {

struct Parsed {
  std::shared_ptr<CLI::App> app;  // commands may use it while they run
  std::string text;               // of --help or --version, to print instead of running
  CommandBody run;
  bool needs_ranks = false;  // not if it only prints its help or its configuration
  ConfigPairs config;
  std::string command_line;
};

// The options of the program and of all its commands.
struct Program {
  std::shared_ptr<CLI::App> app;
  std::vector<CommandBody> runs;  // in the order of commands()
};
Program make_program(const Models& models);

// Throws UsageError, which suggests the nearest name for unknown commands and options.
Parsed parse_command_line(const std::vector<std::string>& arguments, const Models& models);

// A folder that all ranks share, for ranks that have not met: the parent of run.dir, since run.dir itself must be empty
// when a run begins. Commands without run.dir use the working folder. Throws UsageError.
std::string shared_folder(const Parsed& parsed, const Models& models);

}  // namespace lt::launch
