// After a failed write, a stream keeps the text and the error, and both would fail the program at its exit. So both are
// cleared.
#include "io/print_note.h"

#include <stdio_ext.h>

#include <csignal>

namespace lt::io {

bool write_console(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return true;
  ::__fpurge(stdout);
  std::clearerr(stdout);
  return false;
}

void outlive_readers() { std::signal(SIGPIPE, SIG_IGN); }

}  // namespace lt::io
