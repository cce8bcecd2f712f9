// Scratch memory shared by all work on a CUDA device's compute stream. The next kernel may overwrite it. It is
// allocated at the first allocation on the device, in fixed sizes, so that a memory plan can count it.
#pragma once

#include <cstddef>

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::memory {

inline constexpr Size kScratchBytes = Size{64} << 20, kProductWorkspaceBytes = Size{32} << 20;
constexpr Size workspace_bytes(DeviceType type) {
  return type == DeviceType::cuda ? kScratchBytes + kProductWorkspaceBytes : 0;
}

// Allocates the workspace of CUDA device `device` and counts it in the ledger, unless it exists.
void make_workspace(int device);

// Returns kScratchBytes bytes. Throws InternalError if `bytes` is larger.
std::byte* scratch(CudaStream stream, Size bytes);
// Returns kProductWorkspaceBytes bytes, for cuBLASLt.
std::byte* product_workspace(CudaStream stream);

}  // namespace lt::memory
