// Writes the man page of a command with groff's `man` macros. Its subcommands are sections of the page.
#include <fmt/format.h>

#include <utility>

#include "config/variables.h"
#include "launch/exit_codes.h"
#include "launch/pages/command_tree.h"
#include "libtrain/version.h"

namespace lt::launch {
namespace {

std::string escaped(const std::string& text) {
  std::string made;
  char before = '\n';
  for (const char c : text) {
    if (before == '\n' && (c == '.' || c == '\'')) made += "\\&";  // a line that begins so would be a macro
    made += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
    before = c;
  }
  return made;
}

std::string options_text(const PageCommand& command, const char* heading) {
  std::string text, group;
  const auto add = [&](const PageOption& option) {
    std::string names;
    for (const std::string& name : option.names) {
      names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", escaped(name));
    }
    text += fmt::format(".TP\n{}{}{}\n{}\n", names, option.value.empty() ? "" : " ", escaped(option.value),
                        escaped(option.help));
  };
  if (!command.positionals.empty()) text += fmt::format("{} ARGUMENTS\n", heading);
  for (const PageOption& option : command.positionals) add(option);
  for (const PageOption& option : command.options) {
    if (option.group != std::exchange(group, option.group))
      text += fmt::format("{} \"{}\"\n", heading, group == "Options" ? "OPTIONS" : escaped(group));
    add(option);
  }
  return text;
}

std::string commands_text(const PageCommand& command, const char* heading) {
  if (command.commands.empty()) return "";
  std::string text = fmt::format("{} COMMANDS\n", heading);
  for (const PageCommand& sub : command.commands) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", escaped(name_of(sub)), escaped(sub.help));
  }
  return text;
}

// Text of a table, whose signs of code a man page does not have.
std::string plain(std::string text) {
  std::erase(text, '`');
  return escaped(text);
}

std::string environment_text() {
  std::string text = ".SH ENVIRONMENT\n.TP\n\\fBLTRAIN_SECTION_KEY\\fR\na key of the configuration\n";
  for (const config::Variable& variable : config::kVariables) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", variable.name, plain(std::string(variable.help)));
  }
  return text;
}

std::string exit_status_text() {
  std::string text = ".SH \"EXIT STATUS\"\n";
  for (const ExitCodeText& row : kExitCodes) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", row.code, plain(std::string(row.brief) + row.details));
  }
  return text;
}

std::string synopsis(const PageCommand& command) {
  std::string text = fmt::format("\\fBltrain {}\\fR [OPTIONS]", escaped(command.path));
  for (const PageOption& option : command.positionals) text += " " + escaped(option.names.front());
  return text + (command.commands.empty() ? "\n" : " COMMAND\n");
}

}  // namespace

std::string man_page(const PageCommand& command, const PageCommand& root) {
  const bool is_root = command.path.empty();
  const std::string name = is_root ? "ltrain" : "ltrain-" + command.path;
  std::string text = fmt::format(".TH \"{}\" 1 \"\" \"ltrain {}\" \"libtrain\"\n.nh\n.ad l\n", name, version());
  text += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}", escaped(name), escaped(command.help), synopsis(command));
  if (!command.footer.empty()) text += fmt::format(".SH DESCRIPTION\n{}\n", escaped(command.footer));
  text += commands_text(command, ".SH") + options_text(command, ".SH");
  if (!is_root) {
    for (const PageCommand& sub : command.commands) {
      text += fmt::format(".SH \"ltrain {}\"\n{}\n.PP\n{}", escaped(sub.path), escaped(sub.help), synopsis(sub));
      if (!sub.footer.empty()) text += fmt::format(".PP\n{}\n", escaped(sub.footer));
      text += options_text(sub, ".SS");
    }
  }
  if (is_root) text += environment_text() + exit_status_text();
  std::string others = is_root ? "" : "\\fBltrain\\fR(1)";
  for (const PageCommand& other : root.commands) {
    if (other.path == command.path) continue;
    others += fmt::format("{}\\fBltrain\\-{}\\fR(1)", others.empty() ? "" : ", ", escaped(other.path));
  }
  return text + fmt::format(".SH \"SEE ALSO\"\n{}\n", others);
}

}  // namespace lt::launch
