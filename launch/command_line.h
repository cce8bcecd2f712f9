// Parses argv into a function that runs the chosen command.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launch/command.h"

namespace CLI {
class Option;
}

namespace lt::launch {

struct Parsed {
  std::shared_ptr<CLI::App> app;  // `run` may use it
  std::string text;               // output of --help or --version; if not empty, print it instead of calling `run`
  CommandBody run;
  bool needs_ranks = false;  // false also with --help, --version and --print-config
  ConfigPairs config;
  std::string command_line;
};

// The command that the parsed arguments chose, and whether it only prints its configuration.
const CLI::App& chosen_command(const CLI::App& root);
bool prints_config(const CLI::App& root);

// The argument that may be given instead of the option: "DIR" for "DIR,--checkpoint". Empty if there is none.
std::string argument_of(const CLI::Option& option);
// The help of an option that has such an argument.
std::string same_as(const std::string& argument);

// The options of the program and of all its commands.
struct Program {
  std::shared_ptr<CLI::App> app;
  std::vector<CommandBody> runs;  // in the order of commands()
};
Program make_program(const Models& models);

// Throws UsageError, which suggests the nearest name for unknown commands and options.
Parsed parse_command_line(const std::vector<std::string>& arguments, const Models& models);

// Returns a folder that all ranks can access, in which they find each other: the parent of run.dir, because run.dir
// itself must be empty when a run begins. For commands without run.dir, returns the working folder. Throws UsageError.
std::string shared_folder(const Parsed& parsed, const Models& models);

}  // namespace lt::launch
