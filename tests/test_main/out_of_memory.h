// Too little memory on one rank.
#pragma once

#include <cstdlib>
#include <string>

#include "core/fault.h"
#include "test_main/world.h"

namespace lt_test {

// While it lives the n-th allocation of the last rank fails.
class OutOfMemory {
 public:
  explicit OutOfMemory(int n) {
    const std::string fault = "allocate:" + std::to_string(world().size() - 1) + ":0:oom=" + std::to_string(n);
    ::setenv("LTRAIN_FAULT", fault.c_str(), 1);
    lt::set_fault_step(0);
    lt::arm_fault(world().rank());
  }
  ~OutOfMemory() {
    ::unsetenv("LTRAIN_FAULT");
    lt::arm_fault(world().rank());
  }
  OutOfMemory(const OutOfMemory&) = delete;
  OutOfMemory& operator=(const OutOfMemory&) = delete;
};

}  // namespace lt_test
