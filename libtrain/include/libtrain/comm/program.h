// The frame of a program on ranks: they meet, each runs the body, and a failure becomes one message and an exit code.
#pragma once

#include <functional>

#include "libtrain/comm/world.h"

namespace lt {

// For main(): returns what it should return. Calls init() and then `body` with the world, on every rank. What either
// throws is printed on standard error, "error: [part] rank R: message" and a "hint:" line, once for an error that all
// ranks share; where ranks did not come together each says what it met. The exit code is that of the Error, 1 for any
// other exception. Where one rank fails while the others go on, this calls World::abort() and does not return. A rank
// that failed among others has ended after 10 s.
int run_program(int argc, char** argv, const std::function<int(const World&)>& body,
                const MeetingOptions& meeting = {});

}  // namespace lt
