// The ranks of a test program. A test that runs under mpirun uses CHECK and not REQUIRE around collectives: a rank that
// leaves a test early would let the others wait for it.
#pragma once

#include "libtrain/world.h"

namespace lt_test {

// From the start of main() to its end.
const lt::World& world();

}  // namespace lt_test
