// Arms faults in this process for the scope of a test.
#pragma once

#include <cstdlib>
#include <string>

#include "device/fault.h"
#include "test_main/world.h"

namespace lt_test {

// Arms LTRAIN_FAULT as of `rank` for its lifetime; the step is 0 at first.
struct ArmedFault {
  explicit ArmedFault(const std::string& faults, int of_rank = world().rank()) : rank(of_rank) {
    ::setenv("LTRAIN_FAULT", faults.c_str(), 1);
    lt::device::set_fault_step(0);
    lt::device::arm_fault(rank);
  }
  ~ArmedFault() {
    ::unsetenv("LTRAIN_FAULT");
    lt::device::set_fault_step(0);
    lt::device::arm_fault(rank);
  }
  ArmedFault(const ArmedFault&) = delete;
  ArmedFault& operator=(const ArmedFault&) = delete;

  const int rank;
};

// The n-th allocation of the last rank fails.
inline std::string out_of_memory(int n) {
  return "allocate:" + std::to_string(world().size() - 1) + ":0:oom=" + std::to_string(n);
}

}  // namespace lt_test
