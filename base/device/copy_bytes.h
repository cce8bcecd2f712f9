// Copies bytes between the host and a device, or within a device.
#pragma once

#include <cstring>

#include "device/cuda.h"

namespace lt::device {

// Stream-ordered on CUDA, immediate on the CPU.
inline void copy_bytes(const Stream& stream, void* to, const void* from, Size bytes) {
  if (stream.device().type == DeviceType::cuda) return cuda::copy(to, from, bytes, stream.cuda());
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
// Ordered on the compute stream.
inline void copy_bytes(Device device, void* to, const void* from, Size bytes) {
  copy_bytes(Stream::compute(device), to, from, bytes);
}

}  // namespace lt::device
