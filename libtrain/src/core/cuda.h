// What the library asks of CUDA devices beside kernels: memory, streams, events and copies. In a build without CUDA
// (no_cuda.cpp) there are no devices, and nothing else is called.
#pragma once

#include <memory>
#include <string>

#include "libtrain/device.h"
#include "libtrain/dtype.h"

namespace lt::cuda {

bool is_built();
// Why device `index` cannot be used; empty where it can.
std::string why_not(int index);

std::shared_ptr<void> create_stream(int device);
// The stream of all operations; it lives as long as the process.
const std::shared_ptr<void>& compute_stream(int device);
std::shared_ptr<void> create_event(int device);
void record(void* event, void* stream);
void wait(void* stream, void* event);
void synchronize_event(void* event);
void synchronize_stream(void* stream);

void* allocate(int device, Size bytes);  // throws InternalError where there are no `bytes` bytes
void deallocate(int device, void* block);

// In stream order; `host` sides of pageable memory make the call wait for what is before it.
void copy(void* to, const void* from, Size bytes, CudaStream stream);

// Memory of a device for kernels of its compute stream: what one kernel leaves there the next may overwrite.
// Throws InternalError for more than kScratchBytes.
inline constexpr Size kScratchBytes = Size{64} << 20;
std::byte* scratch(CudaStream stream, Size bytes);

}  // namespace lt::cuda
