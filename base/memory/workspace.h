// Scratch memory shared by all work on a CUDA device's compute stream. The next kernel may overwrite it. It has fixed
// sizes, so that a memory plan can count it, and is allocated at the first allocation on the device.
#pragma once

#include <cstddef>

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::memory {

inline constexpr Size kScratchBytes = Size{64} << 20, kMatmulWorkspaceBytes = Size{32} << 20;
constexpr Size workspace_bytes(DeviceType type) {
  return type == DeviceType::cuda ? kScratchBytes + kMatmulWorkspaceBytes : 0;
}

// Allocates the workspace of CUDA device `device`, unless it exists, and counts it in the ledger.
void make_workspace(int device);

// Returns kScratchBytes bytes. Throws InternalError if `bytes` is larger.
std::byte* scratch(CudaStream stream, Size bytes);
// Returns kMatmulWorkspaceBytes bytes, for cuBLASLt.
std::byte* matmul_workspace(CudaStream stream);

}  // namespace lt::memory
