// Scratch memory that all work of a CUDA device's compute stream shares: the next kernel may overwrite it. It is
// allocated with the first allocation on the device, in fixed sizes, so that a plan knows them.
#pragma once

#include <cstddef>

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::cuda {

inline constexpr Size kScratchBytes = Size{64} << 20, kProductWorkspaceBytes = Size{32} << 20;
constexpr Size workspace_bytes(DeviceType type) {
  return type == DeviceType::cuda ? kScratchBytes + kProductWorkspaceBytes : 0;
}

// Makes and counts the workspace of CUDA device `device`, unless it exists.
void make_workspace(int device);

// Returns kScratchBytes bytes. Throws InternalError if `bytes` is larger.
std::byte* scratch(CudaStream stream, Size bytes);
// Returns kProductWorkspaceBytes bytes, for cuBLASLt.
std::byte* product_workspace(CudaStream stream);

}  // namespace lt::cuda
