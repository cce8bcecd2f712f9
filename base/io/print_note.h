// Prints a command's messages. Failed writes, to a closed pipe or a full disk, do not fail the command.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace lt::io {

// Writes to standard output and flushes. Returns false if the write failed; the unwritten text is dropped.
bool write_console(const std::string& text);

// Ignores SIGPIPE, so that a closed reader does not end the process.
void outlive_readers();

// Prints to standard error.
template <class... Args>
void print_note(fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), stderr);
}

// Prints to standard output, for commands whose result is in files.
template <class... Args>
void print_done(fmt::format_string<Args...> format, Args&&... args) {
  write_console(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lt::io
