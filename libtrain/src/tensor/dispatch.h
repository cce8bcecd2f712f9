// Maps a tensor's device to a call of the right back end. Nothing else does that.
#pragma once

#include "device/build.h"
#include "libtrain/tensor/tensor.h"

namespace lt::tensor {

// Calls launch(stream) with the stream type of `device`'s back end. Does nothing on meta. Throws UsageError for a CUDA
// device in a build without CUDA.
template <class Launch>
void dispatch(Device device, Launch&& launch) {
  switch (device.type) {
    case DeviceType::cpu: launch(CpuStream{}); return;
    case DeviceType::meta: return;
    case DeviceType::cuda:
      if constexpr (device::kCudaIsBuilt) {
        launch(Stream::compute(device).cuda());
      } else {
        require_device(device);  // throws
      }
  }
}

// Like dispatch() above, but on `stream`. Does nothing for a CUDA device in a build without CUDA.
template <class Launch>
void dispatch(const Stream& stream, Launch&& launch) {
  switch (stream.device().type) {
    case DeviceType::cpu: launch(CpuStream{}); return;
    case DeviceType::meta: return;
    case DeviceType::cuda:
      if constexpr (device::kCudaIsBuilt) launch(stream.cuda());
  }
}

}  // namespace lt::tensor
