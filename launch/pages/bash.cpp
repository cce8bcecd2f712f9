// Writes the completion for bash: tables of words for each command, and the function that reads them.
#include <fmt/format.h>

#include "launch/pages/command_tree.h"

namespace lt::launch {
namespace {

constexpr const char* kFunction = R"(
_ltrain() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command= commands options values word i
  if [[ $current == = ]]; then  # bash splits words at =
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  _ltrain_words ''
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == -- ]]; then  # ltrain launch -- train
      command=
      _ltrain_words ''
    elif [[ " $commands " == *" $word "* ]]; then
      command=${command:+$command }$word
      _ltrain_words "$command"
    fi
  done
  _ltrain_values "$command" "$previous"
  COMPREPLY=()
  if [[ -n $values ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$current"))
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
  elif [[ -n $commands ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$current"))
  fi
  if [[ ${COMPREPLY[0]-} == *= ]]; then compopt -o nospace; fi
}
complete -o default -F _ltrain ltrain
)";

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

}  // namespace

std::string bash_completion(const PageCommand& root) {
  std::string keys, words;
  for (const PageOption& key : keys_of(root)) keys += fmt::format("{}{}=", keys.empty() ? "" : " ", key.names.front());
  for (const PageCommand* command : all_commands(root)) {
    std::string commands, options;
    for (const PageCommand& sub : command->commands) commands += (commands.empty() ? "" : " ") + name_of(sub);
    const auto own = own_options(*command);
    for (const PageOption& option : own) {
      options += (options.empty() ? "" : " ") + joined(option.names);
    }
    const bool has_keys = own.size() < command->options.size();
    words += fmt::format("    '{}') commands='{}' options='{}'{} ;;\n", command->path, commands, options,
                         has_keys ? "\" $_ltrain_keys\"" : "");
  }
  return fmt::format(
      "# Completion of ltrain for bash, made from its options.\n_ltrain_keys='{}'\n\n"
      "_ltrain_words() {{\n  commands= options=\n  case $1 in\n{}  esac\n}}\n\n"
      "_ltrain_values() {{\n  values=\n  case \"$1 $2\" in\n{}  esac\n}}\n{}",
      keys, words, value_rows(root, "'", "'"), kFunction);
}

}  // namespace lt::launch
