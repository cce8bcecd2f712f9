// The ranks of a test program. A test that runs under mpirun uses CHECK, not REQUIRE, around collectives: a rank that
// leaves a test early would keep the others waiting.
#pragma once

#include <string>

#include "libtrain/comm/world.h"

namespace lt_test {

// Valid from the start of main() to its end.
const lt::World& world();

// The device of this rank: a CUDA device if LT_TEST_DEVICE is cuda, otherwise the CPU. Without such devices the program
// reports that it is skipped, and runs no test.
lt::Device test_device();
// Why a rank cannot use its device, the same answer on all ranks; empty if all can. Every rank must call it.
std::string why_not(lt::Device own);
// Rank 0 prints why a test, or the rest of it, is skipped; called on all ranks alike. A program of which all other
// tests pass then exits with kSkipped, by which CTest counts it as skipped.
void skip(const std::string& why);
inline constexpr int kSkipped = 77;
// All ranks, for tensors on test_device(). If LT_TEST_HOSTS is set, NCCL takes them for those of so many hosts.
const lt::Group& ranks();

}  // namespace lt_test
