// From argv to a function that runs the chosen command.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.h"

namespace lt::launch {

struct Parsed {
  std::shared_ptr<CLI::App> app;  // commands may refer to it as they run
  std::string text;               // of --help or --version, to be printed in place of a run
  Run run;
  ConfigPairs config;
  std::string command_line;
};

// Throws UsageError; for unknown commands and options it names the nearest.
Parsed parse_command_line(const std::vector<std::string>& arguments);

// A folder that all ranks share, for ranks that have not met: the one that holds run.dir, which itself must be empty
// when a run begins; the working folder for commands that know no run.dir. Throws UsageError.
std::string shared_folder(const std::vector<std::string>& arguments);

}  // namespace lt::launch
