// A lock per CUDA device, held during a step. Kernels on the device's compute stream share scratch memory, and a stream
// capture records the work of every thread. CPU threads have scratch memory of their own and take no lock.
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
