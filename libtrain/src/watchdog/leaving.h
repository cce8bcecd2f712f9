// Ends a run for the watchdog: prints and writes its report, and ends the process even if other threads hold locks.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "libtrain/comm/world.h"

namespace lt::watchdog {

// Writes the line `error: [watchdog] message` and its hint to standard error, and the line to <folder>/log.txt.
void say(const std::string& message, const std::string& hint, const std::string& folder);
// Writes `message` and the last collectives of each group to <folder>/watchdog-rank-R.txt. If `aloud`, also writes the
// last eight collectives of the process to standard error.
void write_last_calls(const std::string& message, int rank, const std::string& folder, bool aloud);

// Ends the process within some seconds, or the whole run if `world` is not null.
[[noreturn]] void leave(int exit_code, const World* world);
// Call it before printing, so that a launcher's SIGTERM or a closed standard error cannot interrupt.
void ignore_signals();

}  // namespace lt::watchdog
