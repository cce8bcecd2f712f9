// The ranks of a test program. A test that runs under mpirun uses CHECK and not REQUIRE around collectives: a rank that
// leaves a test early would let the others wait for it.
#pragma once

#include <string>

#include "libtrain/comm/world.h"

namespace lt_test {

// From the start of main() to its end.
const lt::World& world();

// Of this rank: its CUDA device where LT_TEST_DEVICE is cuda, otherwise the CPU. Without such devices the program says
// that it is skipped, and runs no test.
lt::Device device();
// Why a rank cannot use its device, the same answer on all ranks; empty where all can. Every rank must call it.
std::string why_not(lt::Device own);
// All ranks, for tensors on device().
const lt::Group& ranks();

}  // namespace lt_test
