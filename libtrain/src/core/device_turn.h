// One thread at a time gives work to a CUDA device: kernels of its compute stream share scratch memory, and a stream
// that is captured takes all that comes. On the CPU each thread has scratch memory of its own, and there is no turn.
#pragma once

#include <mutex>

#include "libtrain/device.h"

namespace lt {

// Waits for the thread that has the device's turn, unless that is this one.
class DeviceTurn {
 public:
  explicit DeviceTurn(Device device);

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

}  // namespace lt
