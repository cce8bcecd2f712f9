// A lock per CUDA device, held during a step. It is needed because kernels on the device's compute stream share scratch
// memory, and a stream capture records the work of every thread. Each CPU thread has its own scratch memory, so the CPU
// needs no lock.
#pragma once

#include <mutex>

#include "libtrain/device/device.h"

namespace lt::device {

// Blocks while another thread holds the device's lock. Recursive.
class DeviceTurn {
 public:
  explicit DeviceTurn(Device device);

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

}  // namespace lt::device
