// The commands and options of `ltrain` as plain data, for the man pages, the shell completion and the reference pages.
#pragma once

#include <string>
#include <vector>

namespace lt::launch {

struct PageOption {
  std::vector<std::string> names;     // "-n", "--ranks"; for a positional argument "DIR"
  std::string value;                  // text after the name in --help: "DIR (required)", "= 0"
  std::string help;                   // one line
  std::string group;                  // its heading in --help: "Options", "[model]"
  std::vector<std::string> choices;   // allowed values; empty: any
  std::string argument;               // the positional argument that may be given instead: "DIR"; empty: none
  std::vector<std::string> excludes;  // options that may not be given with it
  bool is_key = false;                // a configuration key: --section.key=value
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

// The configuration keys, which several commands share; and a command's options without these keys.
std::vector<PageOption> keys_of(const PageCommand& root);
std::vector<PageOption> own_options(const PageCommand& command);

// Returns rows of a shell's `case` over "COMMAND OPTION". Each row sets `values` to the option's choices, enclosed in
// `open` and `close`.
std::string value_rows(const PageCommand& root, const char* open, const char* close);

// The texts of the pages. They are the same for the same program.
std::string man_page(const PageCommand& command, const PageCommand& root);
std::string bash_completion(const PageCommand& root);
std::string zsh_completion(const PageCommand& root);

}  // namespace lt::launch
