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

// Runs on every rank if Command::needs_ranks, otherwise in one process without ranks. A check that can fail on some
// ranks only should run in collectively(), which throws the error on all ranks. The caller reports exceptions.
using CommandBody = std::function<ExitCode(const Invocation&)>;

struct Command {
  std::string name, help;  // help: one line
  bool takes_config;       // accepts --section.key options; set_up must create a ConfigOptions
  bool for_transformers;   // works on transformers only; programs with other models omit it
  bool needs_ranks;        // all ranks run it together; otherwise one process does
  // Adds the options. The returned function holds their values.
  CommandBody (*set_up)(CLI::App& app, const Models& models);
  const char* rankless = "";  // name of its subcommand that needs no ranks; empty if there is none
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
CommandBody set_up_doctor(CLI::App& app, const Models& models);

}  // namespace lt::launch
