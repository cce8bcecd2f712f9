// Memory of a CUDA device that the work of its compute stream shares: what one kernel leaves there the next may
// overwrite. It is made at the first allocation on the device, in fixed sizes, so that a plan knows them.
#pragma once

#include <cstddef>

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::cuda {

inline constexpr Size kScratchBytes = Size{64} << 20, kProductWorkspaceBytes = Size{32} << 20;
constexpr Size workspace_bytes(DeviceType type) {
  return type == DeviceType::cuda ? kScratchBytes + kProductWorkspaceBytes : 0;
}

// Makes the workspace of CUDA device `device`, and counts it, where that has not been done.
void make_workspace(int device);

// Throws InternalError for more than kScratchBytes.
std::byte* scratch(CudaStream stream, Size bytes);
// kProductWorkspaceBytes, for cuBLASLt.
std::byte* product_workspace(CudaStream stream);

}  // namespace lt::cuda
