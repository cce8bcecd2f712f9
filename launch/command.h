// The interface of `ltrain`'s subcommands. Each subcommand is a row of the table in commands.cpp and one file.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/comm/world.h"
#include "libtrain/error.h"

namespace CLI {
class App;
}

namespace lt::launch {

// Pairs ("section.key", "value") in the order given.
using ConfigPairs = std::vector<std::pair<std::string, std::string>>;

// The input of a command, besides its own options.
struct Invocation {
  const World& world;
  ConfigPairs config;        // for commands that take the configuration
  std::string command_line;  // quoted for a shell
};

// Runs on every rank. Errors that all ranks share should come from collectively(); main() reports exceptions.
using Run = std::function<ExitCode(const Invocation&)>;

struct Command {
  std::string name, help;        // help: one line
  bool takes_config;             // --section.key options; the command adds a ConfigOptions
  Run (*set_up)(CLI::App& app);  // adds the options; the returned function holds their values
};

const std::vector<Command>& commands();

Run set_up_prepare(CLI::App& app);
Run set_up_train(CLI::App& app);
Run set_up_launch(CLI::App& app);
Run set_up_plan(CLI::App& app);
Run set_up_sample(CLI::App& app);
Run set_up_eval(CLI::App& app);
Run set_up_checkpoint(CLI::App& app);
Run set_up_report(CLI::App& app);
Run set_up_bench(CLI::App& app);

}  // namespace lt::launch
