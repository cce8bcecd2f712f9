// The frame of a program on several ranks: they meet, each runs the body, and a failure becomes one message and an exit
// code.
#pragma once

#include <functional>

#include "libtrain/api.h"
#include "libtrain/comm/world.h"

namespace LT_API lt {

// For main(), which returns its result. Calls init() and then `body` with the world, on every rank. Prints what either
// throws on standard error, "error: [component] rank R: message" and a "hint:" line: once for an error that all ranks
// share; if ranks fail to meet, each rank prints its own. The exit code is the Error's, or 1 for any other exception.
// If one rank fails while the others go on, this calls World::abort() and does not return; that rank ends within 10 s.
int run_program(int argc, char** argv, const std::function<int(const World&)>& body,
                const MeetingOptions& meeting = {});

}  // namespace lt
