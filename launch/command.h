// The interface of the program's subcommands. Each subcommand is a row of the table in commands.cpp and one file.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/comm/world.h"
#include "libtrain/config/model_table.h"
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

// Runs on every rank, or on one without the others (Command::needs_ranks). Errors that all ranks share should come from
// collectively(); run_program() reports exceptions.
using CommandBody = std::function<ExitCode(const Invocation&)>;

struct Command {
  std::string name, help;  // help: one line
  bool takes_config;       // --section.key options; the command adds a ConfigOptions
  bool for_transformers;   // only for them; other programs leave it out
  bool needs_ranks;        // the ranks meet first; otherwise one runs it
  // Adds the options. The returned function holds their values.
  CommandBody (*set_up)(CLI::App& app, const Models& models);
  const char* rankless = "";  // a subcommand that needs no ranks
};

std::vector<Command> commands(const ModelTable& models);

CommandBody set_up_prepare(CLI::App& app, const Models& models);
CommandBody set_up_train(CLI::App& app, const Models& models);
CommandBody set_up_launch(CLI::App& app, const Models& models);
CommandBody set_up_plan(CLI::App& app, const Models& models);
CommandBody set_up_sample(CLI::App& app, const Models& models);
CommandBody set_up_eval(CLI::App& app, const Models& models);
CommandBody set_up_checkpoint(CLI::App& app, const Models& models);
CommandBody set_up_report(CLI::App& app, const Models& models);
CommandBody set_up_bench(CLI::App& app, const Models& models);

}  // namespace lt::launch
