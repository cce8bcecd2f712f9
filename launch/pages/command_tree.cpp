// Reads the commands and options from CLI11's data.
#include "launch/pages/command_tree.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "launch/command_line.h"
#include "libtrain/config/config.h"

namespace lt::launch {
namespace {

// CLI11 keeps the members of a choice only in the type's name: "TEXT:{auto,cpu,cuda}".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

PageOption page_option(const CLI::Option& option, bool takes_config) {
  PageOption made;
  for (const std::string& name : option.get_snames()) made.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) made.names.push_back("--" + name);
  made.value = option.get_option_text();
  if (made.value.empty() && option.get_items_expected_max() > 0) made.value = option.get_type_name();
  made.help = option.get_description();
  made.group = option.get_group();
  made.choices = choices_of(option);
  for (const CLI::Option* excluded : option.get_excludes())
    made.excludes.push_back("--" + excluded->get_lnames().back());
  if (!takes_config || made.names.empty()) return made;
  for (const ConfigKey& key : config_keys()) {
    const auto is_it = [&](const ConfigKey& named) { return "--" + named.name == made.names.front(); };
    made.is_key = made.is_key || std::ranges::any_of(key.fields, is_it);
    if (!is_it(key)) continue;
    made.is_key = true;
    made.choices = key.choices;
    if (key.fallback == "true" || key.fallback == "false") made.choices = {"true", "false"};
  }
  return made;
}

PageCommand page_command(const CLI::App& app, const std::string& path) {
  PageCommand made{path, app.get_description(), app.get_footer(), {}, {}, {}};
  const bool takes_config = app.get_option_no_throw("--print-config") != nullptr;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    const PageOption page = page_option(*option, takes_config);
    if (option->nonpositional()) made.options.push_back(page);
    if (const std::string argument = argument_of(*option); !argument.empty()) {
      PageOption& same = made.options.back();
      same.argument = same.value = argument;
      same.help = same_as(argument);
    }
    if (!option->get_positional()) continue;
    made.positionals.push_back(page);
    made.positionals.back().names = {option->get_name(true)};
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    made.commands.push_back(page_command(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name()));
  }
  return made;
}

}  // namespace

PageCommand command_tree() { return page_command(*make_program(transformer_models()).app, ""); }

std::string name_of(const PageCommand& command) { return command.path.substr(command.path.rfind(' ') + 1); }

std::vector<const PageCommand*> all_commands(const PageCommand& root) {
  std::vector<const PageCommand*> all = {&root};
  for (const PageCommand& sub : root.commands) {
    const auto below = all_commands(sub);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

std::vector<PageOption> keys_of(const PageCommand& root) {
  std::vector<PageOption> keys;
  for (const PageCommand* command : all_commands(root)) {
    for (const PageOption& option : command->options) {
      if (option.is_key) keys.push_back(option);
    }
    if (!keys.empty()) break;  // each command has all of them
  }
  return keys;
}

std::vector<PageOption> own_options(const PageCommand& command) {
  std::vector<PageOption> own = command.options;
  std::erase_if(own, [](const PageOption& option) { return option.is_key; });
  return own;
}

std::string value_rows(const PageCommand& root, const char* open, const char* close) {
  std::string text;
  const auto add = [&](const std::string& command, const PageOption& option) {
    if (option.choices.empty()) return;
    for (const std::string& name : option.names) {
      text +=
          fmt::format("    {}' {}') values={}{}{} ;;\n", command, name, open, fmt::join(option.choices, " "), close);
    }
  };
  for (const PageCommand* command : all_commands(root)) {
    for (const PageOption& option : own_options(*command)) add("'" + command->path + "'", option);
  }
  for (const PageOption& key : keys_of(root)) add("*", key);
  return text;
}

}  // namespace lt::launch
