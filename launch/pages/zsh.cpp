// Writes the completion for zsh: tables of words with their help for each command, and the function that reads them.
// Its variables are not named `commands` and `options`, because zsh itself uses these names.
#include <fmt/format.h>

#include "launch/pages/command_tree.h"

namespace lt::launch {
namespace {

constexpr const char* kBody = R"(
_ltrain() {
  local command= word option i
  local -a subcommands flags keys values names
  _ltrain_words ''
  for word in "${(@)words[2,CURRENT-1]}"; do
    if [[ $word == -- ]]; then  # ltrain launch -- train
      command=
      _ltrain_words ''
    elif names=(${subcommands%%:*}) && (( ${names[(Ie)$word]} )); then
      command=${command:+$command }$word
      _ltrain_words "$command"
    fi
  done
  option=${words[CURRENT-1]}
  if [[ $PREFIX == --*=* ]]; then
    option=${PREFIX%%=*}
    compset -P '*='
  fi
  _ltrain_values "$command" "$option"
  if (( $#values )); then
    compadd -a values
  elif [[ $PREFIX == -* ]]; then
    _describe -o option flags
    (( $#keys )) && _describe -o key keys -S ''
  elif (( $#subcommands )); then
    _describe command subcommands
  else
    _files
  fi
}

_ltrain "$@"
)";

std::string quoted(const std::string& text) {
  std::string made = "'";
  for (const char c : text) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return made + "'";
}

// _describe takes "word:help".
std::string row(const std::string& word, const std::string& help) {
  return "      " + quoted(word + ":" + help) + "\n";
}

}  // namespace

std::string zsh_completion(const PageCommand& root) {
  std::string keys, words;
  for (const PageOption& key : keys_of(root)) keys += row(key.names.front() + "=", key.help);
  for (const PageCommand* command : all_commands(root)) {
    std::string commands, options;
    for (const PageCommand& sub : command->commands) commands += row(name_of(sub), sub.help);
    const auto own = own_options(*command);
    for (const PageOption& option : own) {
      for (const std::string& name : option.names) options += row(name, option.help);
    }
    words += fmt::format("    '{}')\n      subcommands=(\n{}      )\n      flags=(\n{}      )\n", command->path,
                         commands, options);
    if (own.size() < command->options.size()) words += "      keys=($_ltrain_keys)\n";
    words += "      ;;\n";
  }
  return fmt::format(
      "#compdef ltrain\n# Completion of ltrain for zsh, made from its options.\n"
      "_ltrain_keys=(\n{})\n\n_ltrain_words() {{\n  subcommands=() flags=() keys=()\n  case $1 in\n{}  esac\n}}\n\n"
      "_ltrain_values() {{\n  values=()\n  case \"$1 $2\" in\n{}  esac\n}}\n{}",
      keys, words, value_rows(root, "(", ")"), kBody);
}

}  // namespace lt::launch
