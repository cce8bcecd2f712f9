// The end of a run by the watchdog: what is printed and written, and that the process ends whatever its other threads
// hold.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "libtrain/comm/world.h"

namespace lt::watchdog {

// Runs `body` on a thread of its own and waits so long for it: a pipe may be full, a disk gone.
void run_within(std::chrono::milliseconds deadline, std::function<void()> body);

// The line `error: [watchdog] message` and its hint on standard error, and in <folder>/log.txt.
void say(const std::string& message, const std::string& hint, const std::string& folder);
// The last collectives of each group: all in <folder>/watchdog-rank-R.txt below `message`; the last eight of the
// process on standard error, where `aloud`.
void write_last_calls(const std::string& message, int rank, const std::string& folder, bool aloud);

// Ends the process within some seconds; of the whole run where `world` is given.
[[noreturn]] void leave(int exit_code, const World* world);
// Before anything is said: neither a launcher's SIGTERM nor a reader that has gone may come between.
void ignore_signals();

}  // namespace lt::watchdog
