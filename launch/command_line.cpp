// Configuration options ("--section.key") are extracted by hand, because CLI11 cannot tell an empty value from a
// missing one. CLI11 parses the rest of the command line.
#include "launch/command_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "config/nearest.h"
#include "io/shell_word.h"
#include "launch/exit_codes.h"
#include "libtrain/config/config.h"
#include "libtrain/version.h"

namespace lt::launch {
namespace {

std::string name_of(const std::string& option) { return option.substr(0, option.find('=')); }
bool is_long_option(const std::string& argument) { return argument.size() > 2 && argument.starts_with("--"); }

// The values of a key that needs none, since it then means true; empty for other keys.
std::vector<std::string> flag_values(const std::vector<ConfigKey>& keys, const std::string& key) {
  const auto known = std::ranges::find(keys, key, &ConfigKey::name);
  if (known == keys.end()) return {};
  if (known->fallback == "true" || known->fallback == "false") return {"true", "false"};
  return std::ranges::find(known->choices, "true") != known->choices.end() ? known->choices
                                                                           : std::vector<std::string>();
}

// Whether the argument behind this one is its value, even one that begins with dashes.
bool takes_next(const CLI::App& command, const std::string& argument) {
  const CLI::Option* const option = is_long_option(argument) ? command.get_option_no_throw(argument) : nullptr;
  return option != nullptr && option->get_items_expected_min() > 0;
}

// The subcommand that an argument chooses; null if it is none.
const CLI::App* chosen_by(const std::string& argument, const CLI::App& app) {
  if (argument.starts_with("-") || app.get_require_subcommand_min() == 0) return nullptr;
  const auto all = app.get_subcommands([](const CLI::App*) { return true; });
  const auto found = std::ranges::find_if(all, [&](const CLI::App* sub) { return sub->check_name(argument); });
  return found == all.end() ? nullptr : *found;
}

// Moves every --section.key=value, --section.key value and, for flags, --section.key out of `arguments`.
ConfigPairs take_config_pairs(std::vector<std::string>& arguments, const CLI::App& root, const Models& models) {
  const std::vector<ConfigKey> keys = config_keys(models);
  ConfigPairs pairs;
  std::vector<std::string> rest;
  const CLI::App* command = &root;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      rest.insert(rest.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
      break;
    }
    if (!is_long_option(argument) || name_of(argument).find('.') == std::string::npos) {
      rest.push_back(argument);
      if (const CLI::App* const sub = chosen_by(argument, *command)) command = sub;
      if (takes_next(*command, argument) && i + 1 < arguments.size()) rest.push_back(arguments[++i]);
      continue;
    }
    const std::string key = name_of(argument).substr(2);
    const bool has_next = i + 1 < arguments.size() && !is_long_option(arguments[i + 1]);
    if (const std::size_t equals = argument.find('='); equals != std::string::npos) {
      pairs.emplace_back(key, argument.substr(equals + 1));
    } else if (const auto values = flag_values(keys, key);
               !values.empty() && !(has_next && std::ranges::find(values, arguments[i + 1]) != values.end())) {
      pairs.emplace_back(key, "true");
    } else if (has_next) {
      pairs.emplace_back(key, arguments[++i]);
    } else {
      pairs.emplace_back(key, "");
    }
  }
  arguments = std::move(rest);
  return pairs;
}

void require_known_option(const std::string& argument, const CLI::App& app, const std::string& path) {
  if (app.get_option_no_throw(name_of(argument)) != nullptr) return;
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back(name);
  }
  const std::string name = name_of(argument).substr(2), meant = config::nearest(name, known);
  const bool is_section = std::any_of(known.begin(), known.end(),
                                      [&](const std::string& option) { return option.starts_with(name + "."); });
  // `launch` passes what follows -- on to its command.
  const bool starts_command = app.get_option_no_throw("COMMAND") != nullptr;
  throw UsageError("usage", fmt::format("unknown option --{}", name),
                   is_section ? fmt::format("{} is a section: --{}.KEY=value sets its keys", name, name)
                   : config::is_near(name, meant) ? fmt::format("did you mean --{}?", meant)
                                                  : fmt::format("the options: {} --help{}", path,
                                                                starts_command ? "; those of train follow --" : ""));
}

const CLI::App& find_subcommand(const std::string& name, const CLI::App& app, const std::string& path) {
  if (const CLI::App* const sub = chosen_by(name, app)) return *sub;
  std::vector<std::string> names;
  std::string list;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
    list += (list.empty() ? "" : ", ") + names.back();
  }
  const bool is_first = app.get_parent() == nullptr;
  const std::string& meant = config::nearest(name, names);
  throw UsageError("usage", fmt::format("unknown command {}{}", name, is_first ? "" : ": expected one of " + list),
                   fmt::format("{}`{} --help` lists them",
                               config::is_near(name, meant) ? fmt::format("did you mean {}? ", meant) : "", path));
}

// Follows the subcommands and refuses unknown ones and unknown options. CLI11 would first report a missing option, even
// if it is the one that was mistyped. Returns the chosen command as typed: "ltrain checkpoint export".
std::string require_known_names(const std::vector<std::string>& arguments, const CLI::App& root) {
  const CLI::App* app = &root;
  std::string path = root.get_name();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") break;
    if (is_long_option(argument)) {
      require_known_option(argument, *app, path);
      if (takes_next(*app, argument)) ++i;
    } else if (!argument.starts_with("-") && app->get_require_subcommand_min() > 0) {
      app = &find_subcommand(argument, *app, path);
      path += " " + argument;
    }
  }
  return path;
}

// The text that each * of `pattern` matches in `text`; nullopt if `text` does not match. A * takes as little as
// possible, and a * at the end of the pattern takes the rest.
std::optional<std::vector<std::string>> matches(std::string_view pattern, std::string_view text) {
  std::vector<std::string> found;
  while (true) {
    const std::size_t star = pattern.find('*');
    if (!text.starts_with(pattern.substr(0, star))) return {};
    if (star == std::string_view::npos) return text.size() == pattern.size() ? std::optional(found) : std::nullopt;
    text.remove_prefix(star);
    pattern.remove_prefix(star + 1);
    const std::string_view next = pattern.substr(0, pattern.find('*'));
    const std::size_t end = next.empty() ? text.size() : text.find(next);
    if (end == std::string_view::npos) return {};
    found.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

// The width of the terminal on standard output, at most 120 columns; 0 if standard output is no terminal.
std::size_t terminal_columns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return std::min<std::size_t>(size.ws_col, 120);
}

// Wraps lines longer than `columns`. Lines of options continue below their description, which begins at column
// `indent`. 0 columns, or too few for the descriptions, change nothing.
std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent) {
  if (columns < indent + 20) return text;
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    std::string line(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t margin = line.starts_with("  ") ? indent : 0;
    while (line.size() > columns) {
      std::size_t end = line.rfind(' ', columns);
      if (end == std::string::npos || end <= margin) end = line.find(' ', columns);  // a word longer than the width
      if (end == std::string::npos) break;
      out += line.substr(0, end) + "\n";
      line = std::string(margin, ' ') + line.substr(end + 1);
    }
    out += line + "\n";
  }
  return out;
}

// Says of an option that may be given as an argument only that it is the same as this argument. Lists no options that
// exclude each other: the errors name them.
class Help : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_option_text().empty() ? "" : " " + option->get_option_text();
  }
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    const std::string argument = argument_of(*option);
    if (is_positional || argument.empty()) return CLI::Formatter::make_option(option, is_positional);
    return fmt::format("  {:<{}}{}\n", make_option_name(option, false) + " " + argument, get_column_width() - 2,
                       same_as(argument));
  }
};

// Rephrases the message of a parser's error in our form; {0} is the match of the first *.
std::string in_own_words(const std::string& message, const CLI::App& root) {
  constexpr std::pair<const char*, const char*> kWords[] = {
      {"A subcommand is required", "expected a command, got none"},
      {"* is required", "{0}: expected a value, got none"},
      {"*: At Most 1 required but received *", "{0}: expected one value, got {1}"},
      {"*: * required * missing", "{0}: expected a value, got none"},
      {"Could not convert: * = *", "{0}: expected a number, got \"{1}\""},
      {"*: * not in {*}", "{0}: expected one of {2}, got \"{1}\""},
      {"The following argument was not expected: *", "expected no further argument, got {0}"},
      {"The following arguments were not expected: *", "expected no further argument, got {0}"},
  };
  if (const auto name = matches("* is required", message)) {
    const CLI::Option* const option = chosen_command(root).get_option_no_throw(name->front());
    if (const std::string argument = option != nullptr ? argument_of(*option) : ""; !argument.empty()) {
      return fmt::format("expected {}, as an argument or by {}, got none", argument, name->front());
    }
  }
  for (const auto& [theirs, ours] : kWords) {
    auto found = matches(theirs, message);
    if (!found) continue;
    found->resize(3);
    return fmt::format(fmt::runtime(ours), found->at(0), found->at(1), found->at(2));
  }
  return message;
}

// A line for each exit code. Descriptions begin at column `indent`.
std::string exit_codes(std::size_t indent) {
  std::string text = "\nExit codes:\n";
  for (const ExitCodeText& row : kExitCodes) text += fmt::format("  {:<{}}{}\n", row.code, indent - 2, row.brief);
  return text;
}

// Printing the configuration takes no ranks.
bool needs_ranks(const Command& command, const CLI::App& root) {
  return command.needs_ranks && chosen_command(root).get_name() != command.rankless && !prints_config(root);
}

}  // namespace

const CLI::App& chosen_command(const CLI::App& root) {
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return *app;
}

bool prints_config(const CLI::App& root) {
  const CLI::Option* const print = chosen_command(root).get_option_no_throw("--print-config");
  return print != nullptr && print->count() > 0;
}

std::string argument_of(const CLI::Option& option) {
  return option.get_positional() && option.nonpositional() ? option.get_name(true) : "";
}

std::string same_as(const std::string& argument) { return "the same as the argument " + argument; }

Program make_program(const Models& models) {
  const std::string& name = models->program;
  const char* const what = models->rows.empty() ? "Trains transformers on 1 to N devices."
                                                : "Trains models on 1 to N devices with libtrain.";
  Program program{std::make_shared<CLI::App>(what, name), {}};
  CLI::App& app = *program.app;
  app.set_version_flag("--version",
                       fmt::format("{}ltrain {} (commit {})\nbuilt with: {}\n",
                                   models->rows.empty() ? "" : name + ", with ", version(), commit(), built_with()));
  app.require_subcommand(1);
  app.formatter(std::make_shared<Help>());
  for (const Command& command : commands(*models)) {
    program.runs.push_back(command.set_up(*app.add_subcommand(command.name, command.help), models));
  }
  app.footer(fmt::format("`{} COMMAND --help` shows the options of a command.", name));
  return program;
}

Parsed parse_command_line(const std::vector<std::string>& given, const Models& models) {
  const std::string& name = models->program;
  if (given.empty()) {
    throw UsageError("usage", "expected a command, got none", fmt::format("`{} --help` lists them", name));
  }
  Program program = make_program(models);
  Parsed parsed;
  parsed.app = program.app;
  CLI::App& app = *parsed.app;
  std::vector<std::string> arguments = given;
  const std::vector<Command> table = commands(*models);
  std::size_t chosen = table.size();
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].name != given[0]) continue;
    chosen = i;
    parsed.run = program.runs[i];
    if (table[i].takes_config) parsed.config = take_config_pairs(arguments, app, models);
  }
  const std::string path = require_known_names(arguments, app);

  parsed.command_line = name;
  for (const std::string& argument : given) parsed.command_line += " " + io::shell_word(argument);
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 wants the last one first
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    const std::size_t indent = chosen_command(app).get_formatter()->get_column_width();
    const std::string help = app.help() + (&chosen_command(app) == &app ? exit_codes(indent) : "");
    parsed.text = wrapped(help, terminal_columns(), indent);
  } catch (const CLI::CallForVersion& call) {
    parsed.text = call.what();
  } catch (const CLI::ParseError& error) {
    const std::string what = in_own_words(error.what(), app);
    // `ltrain train run.toml` probably means --config run.toml.
    const std::string file = what.ends_with(".toml") ? what.substr(what.rfind(' ')) : "";
    throw UsageError("usage", what, path + (file.empty() ? " --help" : " --config" + file));
  }
  parsed.needs_ranks = parsed.text.empty() && needs_ranks(table.at(chosen), app);
  return parsed;
}

std::string shared_folder(const Parsed& parsed, const Models& models) {
  const auto commands = parsed.app->get_subcommands();
  if (commands.empty() || commands[0]->get_option_no_throw("--config") == nullptr) return ".";
  const auto file = commands[0]->get_option("--config")->as<std::string>();
  const auto run_dir = std::filesystem::path(load_config(file, parsed.config, models).run.dir).lexically_normal();
  return (run_dir.has_filename() ? run_dir : run_dir.parent_path()).parent_path().string();
}

}  // namespace lt::launch
