// The workspace of each CUDA device. It lives until the process ends, when the driver reclaims it.
#include "memory/workspace.h"

#include <array>
#include <cstddef>
#include <mutex>
#include <string>

#include "device/cuda.h"
#include "libtrain/error.h"
#include "memory/ledger.h"

namespace lt::memory {
namespace {

struct Workspace {
  std::once_flag once;
  std::byte* memory = nullptr;  // scratch memory, followed by cuBLASLt's workspace
};

std::byte* workspace(int device) {
  static auto& workspaces = *new std::array<Workspace, device::cuda::kMostDevices>;
  Workspace& entry = workspaces[static_cast<std::size_t>(device)];
  std::call_once(entry.once, [&] {
    const Size bytes = workspace_bytes(DeviceType::cuda);
    entry.memory = static_cast<std::byte*>(device::cuda::allocate(device, bytes));
    ledger_add({DeviceType::cuda, device}, MemoryOwner::workspace, bytes);
  });
  return entry.memory;
}

}  // namespace

void make_workspace(int device) { workspace(device); }

std::byte* scratch(CudaStream stream, Size bytes) {
  if (bytes > kScratchBytes) {
    throw InternalError("memory", "expected at most " + std::to_string(kScratchBytes) +
                                      " bytes of scratch memory, got " + std::to_string(bytes));
  }
  return workspace(stream.device);
}

std::byte* matmul_workspace(CudaStream stream) { return workspace(stream.device) + kScratchBytes; }

}  // namespace lt::memory
