// Prints what a command says beside its result. The reader may be gone and the disk full: no command fails for that.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace lt::io {

// Writes to standard output at once. What cannot be written is dropped. Returns whether all was written.
bool write_console(const std::string& text);

// Ignores SIGPIPE, so that a closed reader does not end the process.
void outlive_readers();

// To standard error.
template <class... Args>
void print_note(fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), stderr);
}

// To standard output, from a command whose result is in files.
template <class... Args>
void print_done(fmt::format_string<Args...> format, Args&&... args) {
  write_console(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lt::io
