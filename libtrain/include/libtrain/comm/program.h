// The main function of a program on one or more ranks: the ranks meet, each runs the body, and a failure becomes one
// message and an exit code.
#pragma once

#include <functional>

#include "libtrain/api.h"
#include "libtrain/comm/world.h"

namespace LT_API lt {

// Call it from main() and return its result. Calls init(), and then `body` with the world, on every rank. Returns the
// result of `body`. If either throws, the exit code is Error::code(), 3 for std::filesystem::filesystem_error, or 1
// for any other exception.
// Errors go to standard error: "error: [component] rank R: message", and a "hint:" line if there is a hint. An
// exception of the program's own has the component "program" and the message what(). "rank R:" is omitted for a
// UsageError and for a single rank. An error that all ranks share is printed once. If the ranks fail to meet, each rank
// prints its own error; under an MPI launcher, only the first rank of each host prints a CommError. If one rank fails
// while the others continue, the failed rank calls World::abort(), and ends within 10 s even if that hangs.
int run_program(int argc, char** argv, const std::function<int(const World&)>& body,
                const MeetingOptions& meeting = {});

}  // namespace lt
