// The commands and options of `ltrain` as plain data, for its man pages and its completion.
#pragma once

#include <string>
#include <vector>

namespace lt::launch {

struct PageOption {
  std::vector<std::string> names;    // "-n", "--ranks"; of a positional "DIR"
  std::string value;                 // what --help shows after the name: "DIR (required)", "= 0"
  std::string help;                  // one line
  std::string group;                 // its heading in --help: "Options", "[model]"
  std::vector<std::string> choices;  // the only values; empty: others too
  bool is_key = false;               // a configuration key: --section.key=value
};

struct PageCommand {
  std::string path;  // "", "train", "checkpoint export"
  std::string help, footer;
  std::vector<PageOption> positionals, options;
  std::vector<PageCommand> commands;
};

PageCommand command_tree();

std::string name_of(const PageCommand& command);  // the last word of its path
std::vector<const PageCommand*> all_commands(const PageCommand& root);

// The configuration keys, which several commands share; and the other options of a command.
std::vector<PageOption> keys_of(const PageCommand& root);
std::vector<PageOption> own_options(const PageCommand& command);

// Rows of a shell's `case` over "COMMAND OPTION", which set `values` to the choices, between `open` and `close`.
std::string value_rows(const PageCommand& root, const char* open, const char* close);

// The pages. The same program always makes the same text.
std::string man_page(const PageCommand& command, const PageCommand& root);
std::string bash_completion(const PageCommand& root);
std::string zsh_completion(const PageCommand& root);

}  // namespace lt::launch
