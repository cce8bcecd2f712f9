// The end of a run by the watchdog: it prints and writes its report, and ends the process whatever other threads hold.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "libtrain/comm/world.h"

namespace lt::watchdog {

// Writes the line `error: [watchdog] message` and its hint to standard error, and the line to <folder>/log.txt.
void say(const std::string& message, const std::string& hint, const std::string& folder);
// Writes the last collectives of each group: all to <folder>/watchdog-rank-R.txt below `message`; if `aloud`, the last
// eight of the process to standard error.
void write_last_calls(const std::string& message, int rank, const std::string& folder, bool aloud);

// Ends the process within some seconds; if `world` is given, the whole run.
[[noreturn]] void leave(int exit_code, const World* world);
// Call it before printing, so that neither a launcher's SIGTERM nor a reader that has gone can interrupt.
void ignore_signals();

}  // namespace lt::watchdog
