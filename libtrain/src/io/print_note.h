// Prints to standard error, whose reader may be gone and whose disk may be full: no command fails for a note.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace lt {

template <class... Args>
void print_note(fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), stderr);
}

}  // namespace lt
