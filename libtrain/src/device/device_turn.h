// A lock of a CUDA device, held during a step. Kernels of its compute stream share scratch memory, and a stream capture
// records whatever any thread enqueues. CPU threads have scratch memory of their own and take no lock.
#pragma once

#include <mutex>

#include "libtrain/device/device.h"

namespace lt {

// Blocks while another thread holds the device's lock. Recursive.
class DeviceTurn {
 public:
  explicit DeviceTurn(Device device);

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

}  // namespace lt
